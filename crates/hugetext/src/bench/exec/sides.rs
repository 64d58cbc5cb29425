//! The sides of an exec benchmark: the program in small folios and warmed, and rewritten copies
//! that appear under its path while they are measured.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hugetext_elf::{Options, Plan, Refusal, Strategy, plan, plan_auto};
use hugetext_host::{Mountable, holders, uncover};
use hugetext_leaf::Leaf;
use tempfile::TempDir;

use super::super::disk::has_room;
use super::super::text_cache::{Held, State, Text};
use super::super::{Side, Stop};
use crate::failure::{Failure, plain};
use crate::fix::carry_out;
use crate::program::Program;
use crate::warm::Ground;

/// A file in a state, which runs under the program's path.
pub(super) struct Version {
    name: &'static str,
    what: String,
    text: Text,
    /// `None` if the file has no window.
    state: Option<State>,
    /// The copy shown under the program's path while this side runs.
    stand_in: Option<PathBuf>,
}

/// Every side of one program.
pub(super) struct Versions {
    /// The program's path without symbolic links: the path that a mount covers.
    program: PathBuf,
    pub(super) sides: Vec<Version>,
    pub(super) notes: Vec<String>,
    /// Holds the copies and removes them when dropped.
    _directory: Option<TempDir>,
}

/// Whether the program itself is measured or a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Itself,
    /// A copy if other processes run the program, since the pages that they map stay in the page
    /// cache.
    ItselfUnlessInUse,
    Copy,
}

/// The inputs from which the sides are made.
pub(super) struct Means<'m> {
    pub(super) ground: &'m Ground,
    /// The directory for copies.
    pub(super) directory: &'m Path,
    /// Why a copy cannot be mounted over a file, if it cannot.
    pub(super) refused: Option<&'m str>,
}

impl Versions {
    /// The sides of the program at `path`. The answer is no if none of them has a window but
    /// `wanted` requires one.
    pub(super) fn of(
        path: &Path,
        subject: Subject,
        wanted: bool,
        means: &Means,
    ) -> Result<Versions, Stop> {
        let path = fs::canonicalize(path).map_err(|error| Failure::io(path, &error))?;
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
                let failure = Failure::at(&versions.program, reason);
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
        if wanted && versions.sides.iter().all(|side| side.state.is_none()) {
            let none = Failure::at(
                &versions.program,
                "its text holds no window that can be huge",
            );
            return Err(Stop::No(none.remedy("`hugetext check` shows why")));
        }
        Ok(versions)
    }

    fn add_all(&mut self, original: &Program, copied: bool, means: &Means) -> Result<(), Stop> {
        let len = original.file.metadata().map(|metadata| metadata.len());
        let len = len.map_err(|error| Failure::io(&original.path, &error))?;
        has_room(means.directory, len.saturating_mul(3))?;
        let directory = tempfile::Builder::new()
            .prefix("hugetext-")
            .tempdir_in(means.directory);
        let directory = directory.map_err(|error| Failure::io(means.directory, &error))?;
        let own = match copied {
            false => None,
            true => {
                let note = "all sides run copies, because other processes run the program";
                self.notes.push(note.to_owned());
                let copy = directory.path().join("copy");
                let copied = fs::copy(&self.program, &copy);
                copied.map_err(|error| Failure::io(&copy, &error))?;
                Some(copy)
            }
        };
        self.add_itself(original, own, means)?;
        for (name, plan) in [
            ("fixed", fixed(original, means.ground)),
            ("merged", merged(original, means.ground)),
        ] {
            let copy = match plan {
                Ok(plan) => rewritten(original, name, &plan, directory.path()),
                Err(refusal) => Err(Failure::at(&original.path, refusal)),
            };
            match copy {
                Ok((path, what)) => self.add(name, what, State::Huge, Some(path), means)?,
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
        means: &Means,
    ) -> Result<(), Stop> {
        let path = copy.as_deref().unwrap_or(&original.path);
        let text = Text::of(Program::open(path)?, means.ground)?;
        if text.count() == 0 {
            let what = "no window that can be huge".to_owned();
            return self.add("as it is", what, State::Small, copy, means);
        }
        for (name, state) in [("small folios", State::Small), ("warmed", State::Huge)] {
            self.add(name, "as it is".to_owned(), state, copy.clone(), means)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &'static str,
        what: String,
        state: State,
        stand_in: Option<PathBuf>,
        means: &Means,
    ) -> Result<(), Stop> {
        let path = stand_in.as_deref().unwrap_or(&self.program);
        let text = Text::of(Program::open(path)?, means.ground)?;
        self.sides.push(Version {
            name,
            what,
            state: (text.count() > 0).then_some(state),
            text,
            stand_in,
        });
        Ok(())
    }

    /// Shows `side` under the program's path and brings its page cache into the side's state, until
    /// the returned value is dropped.
    pub(super) fn show<'v>(
        &'v self,
        side: &'v Version,
        ground: &Ground,
    ) -> Result<Shown<'v>, Stop> {
        let cover = side.stand_in.as_deref();
        let cover = cover.map(|stand_in| Cover::over(&self.program, stand_in));
        let cover = cover.transpose()?;
        let held = side.state.map(|state| side.text.bring(state, ground));
        Ok(Shown {
            held: held.transpose()?,
            _cover: cover,
        })
    }
}

impl Version {
    /// The description for the reader, with the verified state of the page cache.
    pub(super) fn describe(&self, verified: Option<&str>) -> Side {
        let state = match verified {
            Some(verified) => format!("{}; {verified}", self.what),
            None => self.what.clone(),
        };
        Side {
            name: self.name.to_owned(),
            state,
        }
    }
}

/// A side while it is measured.
pub(super) struct Shown<'v> {
    held: Option<Held<'v>>,
    _cover: Option<Cover<'v>>,
}

impl Shown<'_> {
    /// Whether every window is still in its state.
    pub(super) fn stands(&self) -> Result<bool, Failure> {
        self.held.as_ref().map_or(Ok(true), Held::stands)
    }

    /// The verified state of the page cache; `None` if the file has no window.
    pub(super) fn describe(&self) -> Option<String> {
        self.held.as_ref().map(Held::describe)
    }
}

/// A file shown at the path of another until this value is dropped. This process has its own mount
/// namespace.
struct Cover<'p>(&'p Path);

impl<'p> Cover<'p> {
    fn over(path: &'p Path, stand_in: &Path) -> Result<Cover<'p>, Failure> {
        let failed = |error: io::Error| Failure::at(path, plain(&error));
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

fn options(leaf: Leaf, ground: &Ground) -> Options {
    Options {
        leaf,
        page: ground.page(),
        extend_tail: false,
    }
}

fn fixed(program: &Program, ground: &Ground) -> Result<Plan, Refusal> {
    plan_auto(&program.image, &options(ground.leaf, ground))
}

/// Fewer mappings may save time even without a window.
fn merged(program: &Program, ground: &Ground) -> Result<Plan, Refusal> {
    let to = |leaf| plan(&program.image, Strategy::Merge, &options(leaf, ground));
    to(ground.leaf).or_else(|_| to(ground.page()))
}

/// A verified rewritten copy, and the change that was made.
fn rewritten(
    program: &Program,
    name: &str,
    plan: &Plan,
    directory: &Path,
) -> Result<(PathBuf, String), Failure> {
    let path = directory.join(name);
    let failed = |error: io::Error| Failure::io(&path, &error);
    let new = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(failed)?;
    carry_out(program, plan, &new, &path)?;
    let mode = fs::metadata(&program.path).map_err(failed)?.permissions();
    new.set_permissions(fs::Permissions::from_mode(mode.mode() & 0o777))
        .map_err(failed)?;
    let (before, after) = (program.image.segments.len(), plan.segments.len());
    let what = match plan.is_noop(&program.image) {
        true => "needs no rewriting".to_owned(),
        false if after < before => format!("{:?}, {after} segments for {before}", plan.strategy),
        false => format!("{:?}", plan.strategy),
    };
    Ok((path, what.to_lowercase()))
}
