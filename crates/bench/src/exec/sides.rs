//! The sides of an exec benchmark: the program in small folios and warmed, rewritten copies that appear
//! under its path while they are measured, and rivals.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hugetext_elf::{MovedText, Options, Plan, PlanError, Strategy, plan, plan_auto};
use hugetext_engine::{HostContext, Program, plain, rewrite_into};
use hugetext_host::{Mountable, holders, uncover};
use hugetext_leaf::Leaf;
use tempfile::TempDir;

use super::names::{AS_FOUND, AS_IT_IS, FIXED, MERGED, SMALL, WARMED};
use super::rival::{Rival, RivalChange};
use crate::comparison::Side;
use crate::disk::has_room;
use crate::error::BenchError;
use crate::error::BenchStop;
use crate::text_cache::{CachedText, FolioState, HeldState, Lost};

/// A file in a state, which runs under the program's path.
pub(crate) struct Version<'h> {
    name: String,
    what: String,
    /// What a rival changes of the runs of this side.
    pub(super) change: Option<RivalChange>,
    text: CachedText<'h>,
    /// `None` if the file has no window, and no text whose folios can be seen.
    state: Option<FolioState>,
    /// The copy shown under the program's path while this side runs.
    stand_in: Option<PathBuf>,
}

/// Every side of one program.
pub(crate) struct Versions<'h> {
    /// The program's path without symbolic links: the path that a mount covers.
    program: PathBuf,
    pub(crate) sides: Vec<Version<'h>>,
    pub(crate) notes: Vec<String>,
    /// Holds the copies and removes them when dropped.
    _directory: Option<TempDir>,
}

/// Whether the program itself is measured or a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Itself,
    /// A copy if other processes run the program, since the pages that they map stay in the page
    /// cache.
    ItselfUnlessInUse,
    Copy,
}

/// The inputs from which the sides are made.
pub(crate) struct Means<'m> {
    pub(crate) host: &'m HostContext,
    /// The directory for copies.
    pub(crate) directory: &'m Path,
    /// Why a copy cannot be mounted over a file, if it cannot.
    pub(crate) refused: Option<&'m str>,
    /// Other ways to huge text.
    pub(crate) rivals: &'m [Rival],
}

impl<'h> Versions<'h> {
    /// The sides of the program at `path`. The answer is no if none of them has a window but
    /// `wanted` requires one.
    pub(crate) fn of(
        path: &Path,
        subject: Subject,
        wanted: bool,
        means: &Means<'h>,
    ) -> Result<Versions<'h>, BenchStop> {
        let path = fs::canonicalize(path).map_err(|error| BenchError::io(path, &error))?;
        let original = Program::open(&path)?;
        let in_use = || holders(&original.file).is_ok_and(|holders| !holders.is_empty());
        let copied = match subject {
            Subject::Itself => false,
            Subject::ItselfUnlessInUse => means.refused.is_none() && in_use(),
            Subject::Copy => true,
        };
        let mut versions = Versions {
            sides: Vec::new(),
            notes: Vec::new(),
            program: path,
            _directory: None,
        };
        if let Some(reason) = means.refused {
            if copied {
                let failure = BenchError::at(&versions.program, reason);
                return Err(failure
                    .remedy("without --copy the program itself is measured")
                    .into());
            }
            let note = format!("fixed and merged copies left out: {reason}");
            versions.notes.push(note);
            versions.add_itself(&original, None, means)?;
        } else {
            versions.add_all(&original, copied, means)?;
        }
        versions.add_as_found(means)?;
        for rival in means.rivals {
            versions.add_rival(rival, means)?;
        }
        if wanted && versions.sides.iter().all(|side| side.state.is_none()) {
            let none = BenchError::at(
                &versions.program,
                "its text holds no window that can be huge",
            );
            return Err(BenchStop::No(none.remedy("`hugetext check` shows why")));
        }
        Ok(versions)
    }

    fn add_all(
        &mut self,
        original: &Program,
        copied: bool,
        means: &Means<'h>,
    ) -> Result<(), BenchStop> {
        let len = original.file.metadata().map(|metadata| metadata.len());
        let len = len.map_err(|error| BenchError::io(&original.path, &error))?;
        has_room(means.directory, len.saturating_mul(3))?;
        let directory = tempfile::Builder::new()
            .prefix("hugetext-")
            .tempdir_in(means.directory);
        let directory = directory.map_err(|error| BenchError::io(means.directory, &error))?;
        let own = if copied {
            let note = "all sides run copies, because other processes run the program";
            self.notes.push(note.to_owned());
            let copy = directory.path().join("copy");
            let copied = fs::copy(&self.program, &copy);
            copied.map_err(|error| BenchError::io(&copy, &error))?;
            Some(copy)
        } else {
            None
        };
        self.add_itself(original, own, means)?;
        for (name, plan) in [
            (FIXED, fixed(original, means.host)),
            (MERGED, merged(original, means.host)),
        ] {
            let copy = match plan {
                Ok(plan) => rewritten(original, name, &plan, directory.path()),
                Err(refusal) => Err(BenchError::at(&original.path, refusal)),
            };
            match copy {
                Ok((path, what)) => self.add(name, what, FolioState::Huge, Some(path), means)?,
                Err(failure) => self.notes.push(format!("{name} left out: {failure}")),
            }
        }
        self._directory = Some(directory);
        Ok(())
    }

    /// The program, or an identical `copy` of it, in both states.
    fn add_itself(
        &mut self,
        original: &Program,
        copy: Option<PathBuf>,
        means: &Means<'h>,
    ) -> Result<(), BenchStop> {
        let path = copy.as_deref().unwrap_or(&original.path);
        let text = CachedText::of(path, means.host)?;
        if !text.has_states() {
            let what = "no window that can be huge".to_owned();
            return self.add(AS_IT_IS, what, FolioState::Small, copy, means);
        }
        for (name, state) in [(SMALL, FolioState::Small), (WARMED, FolioState::Huge)] {
            self.add(name, "as it is".to_owned(), state, copy.clone(), means)?;
        }
        Ok(())
    }

    /// The file of the first side as a start leaves it, unless its folios cannot be seen.
    fn add_as_found(&mut self, means: &Means<'h>) -> Result<(), BenchStop> {
        let first = self.sides.first().filter(|side| side.state.is_some());
        let Some(file) = first.map(|side| side.stand_in.clone()) else {
            return Ok(());
        };
        let what = "as it is".to_owned();
        self.add(AS_FOUND, what, FolioState::Found, file, means)
    }

    fn add(
        &mut self,
        name: &str,
        what: String,
        state: FolioState,
        stand_in: Option<PathBuf>,
        means: &Means<'h>,
    ) -> Result<(), BenchStop> {
        let path = stand_in.as_deref().unwrap_or(&self.program);
        let text = CachedText::of(path, means.host)?;
        self.sides.push(Version {
            name: name.to_owned(),
            what,
            change: None,
            state: text.has_states().then_some(state),
            text,
            stand_in,
        });
        Ok(())
    }

    /// A rival runs what the first side runs, unless it has a file of its own.
    fn add_rival(&mut self, rival: &Rival, means: &Means<'h>) -> Result<(), BenchStop> {
        let stand_in = match rival.change.file() {
            Some(path) => {
                if let Some(reason) = means.refused {
                    self.notes
                        .push(format!("{} left out: {reason}", rival.name));
                    return Ok(());
                }
                let path = fs::canonicalize(path).map_err(|error| BenchError::io(path, &error))?;
                Some(path)
            }
            None => self.sides.first().and_then(|side| side.stand_in.clone()),
        };
        let what = rival.change.describe();
        self.add(&rival.name, what, FolioState::Small, stand_in, means)?;
        if let Some(side) = self.sides.last_mut() {
            side.change = Some(rival.change.clone());
        }
        Ok(())
    }

    /// Shows `side` under the program's path and brings its page cache into the side's state, until
    /// the returned value is dropped.
    pub(crate) fn show<'v>(&'v self, side: &'v Version<'h>) -> Result<Shown<'v>, BenchStop> {
        let cover = side.stand_in.as_deref();
        let cover = cover.map(|stand_in| Cover::over(&self.program, stand_in));
        let cover = cover.transpose()?;
        let held = side.state.map(|state| side.text.bring(state));
        Ok(Shown {
            held: held.transpose()?,
            _cover: cover,
        })
    }
}

impl Version<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its page cache is what a start leaves, so that one must come before what is measured.
    pub(super) fn is_as_found(&self) -> bool {
        self.state == Some(FolioState::Found)
    }

    /// The description for the reader, with the verified state of the page cache.
    pub(crate) fn describe(&self, verified: Option<&str>) -> Side {
        let state = match verified {
            Some(verified) => format!("{}; {verified}", self.what),
            None => self.what.clone(),
        };
        Side {
            name: self.name.clone(),
            state,
        }
    }
}

/// A side while it is measured.
pub(crate) struct Shown<'v> {
    held: Option<HeldState<'v>>,
    _cover: Option<Cover<'v>>,
}

impl Shown<'_> {
    /// How the page cache lost the side's state; `None` if it still has it.
    pub(crate) fn lost(&self) -> Result<Option<Lost>, BenchError> {
        self.held.as_ref().map_or(Ok(None), HeldState::lost)
    }

    /// The verified state of the page cache; `None` if the file has no window.
    pub(crate) fn describe(&self) -> Option<String> {
        self.held.as_ref().map(HeldState::describe)
    }
}

/// A file shown at the path of another until this value is dropped. This process has its own mount
/// namespace.
struct Cover<'p>(&'p Path);

impl<'p> Cover<'p> {
    fn over(path: &'p Path, stand_in: &Path) -> Result<Cover<'p>, BenchError> {
        let failed = |error: io::Error| BenchError::at(path, plain(&error));
        let original = Mountable::open(path).map_err(failed)?;
        let stand_in = Mountable::open(stand_in).map_err(failed)?;
        stand_in.mount_over(&original).map_err(failed)?;
        Ok(Cover(path))
    }
}

impl Drop for Cover<'_> {
    fn drop(&mut self) {
        // If the unmount fails, the next side covers the path as well.
        let _ = uncover(self.0);
    }
}

fn options(leaf: Leaf, host: &HostContext) -> Options {
    Options {
        leaf,
        page: host.page,
        extend_tail: false,
        moved: MovedText::Nearest,
    }
}

fn fixed(program: &Program, host: &HostContext) -> Result<Plan, PlanError> {
    let options = options(host.leaf, host);
    plan_auto(&program.file, &program.image, &options)
}

/// Fewer mappings may save time even without a window.
fn merged(program: &Program, host: &HostContext) -> Result<Plan, PlanError> {
    let (source, image) = (&program.file, &program.image);
    let to = |leaf| plan(source, image, Strategy::Merge, &options(leaf, host));
    to(host.leaf).or_else(|_| to(host.page))
}

/// A verified rewritten copy, and the change that was made.
fn rewritten(
    program: &Program,
    name: &str,
    plan: &Plan,
    directory: &Path,
) -> Result<(PathBuf, String), BenchError> {
    let path = directory.join(name);
    let failed = |error: io::Error| BenchError::io(&path, &error);
    let new = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(failed)?;
    rewrite_into(&new, &path, program, plan)?;
    let mode = fs::metadata(&program.path).map_err(failed)?.permissions();
    new.set_permissions(fs::Permissions::from_mode(mode.mode() & 0o777))
        .map_err(failed)?;
    let (before, after) = (program.image.segments.len(), plan.segments.len());
    let what = if plan.is_noop(&program.image) {
        "needs no rewriting".to_owned()
    } else if after < before {
        format!("{:?}, {after} segments for {before}", plan.strategy)
    } else {
        format!("{:?}", plan.strategy)
    };
    Ok((path, what.to_lowercase()))
}
