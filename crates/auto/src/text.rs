//! Looks at the text of a file, makes it huge, and holds it. Everything here may take long, and runs in
//! a thread that can be given up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_engine::{
    Error, HeldText, Program, ProgramOnHost, WarmMethod, WarmOutcome, WarmPolicy, cached_by_node,
    plain, warm_ranges, warm_unused,
};
use hugetext_host::{FileState, MappedFile, MountedOn, Nodes, Pid, WindowState, recent_holders};
use hugetext_leaf::hold::Gain;
use hugetext_leaf::replica::NodeBytes;
use hugetext_leaf::{FileId, Span};

use crate::catalog::{FileText, Key};
use crate::charge::Lockable;
use crate::here::{Here, here};
use crate::open::{Found, ensure_answers, is_public, open_mapped, open_untouched};
use crate::processor::own_time;
use crate::reason::Hindrance;
use crate::work_queue::Job;

/// A file to look at.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Its number.
    pub(crate) key: Key,
    /// How to find it.
    pub(crate) by: Name,
}

impl Job for Look {
    type Target = Key;

    fn target(&self) -> Key {
        self.key
    }
}

/// How a file is found.
#[derive(Debug, Clone)]
pub(crate) enum Name {
    /// By a process that mapped it.
    Mapped {
        /// The process.
        pid: Pid,
        /// The name of the file in its root directory.
        path: PathBuf,
        /// What the kernel calls it.
        file: MappedFile,
    },
    /// By its path on this machine, where another file may lie by now.
    Path(PathBuf),
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The number of the file.
    pub(crate) key: Key,
    /// Whether it was looked up by its path on this machine.
    pub(crate) by_path: bool,
    /// The file and its text, if any of that can be huge; an error if it could not be opened.
    pub(crate) found: io::Result<(MappedFile, Option<FileText>)>,
}

/// Looks at a file.
pub(crate) fn look(job: Look) -> Looked {
    let by_path = matches!(job.by, Name::Path(_));
    let found = match job.by {
        Name::Mapped { pid, path, file } => open_mapped(pid, &path, file),
        Name::Path(path) => open_named(&path).map(|file| Found { path, file }),
    };
    Looked {
        key: job.key,
        by_path,
        found: found.and_then(|found| text_of(found.path, found.file)),
    }
}

/// The text of the file at `path` that can be huge; `None` if there is none.
pub fn look_at(path: &Path) -> io::Result<Option<FileText>> {
    let file = open_untouched(path)?;
    Ok(text_of(path.to_owned(), file)?.1)
}

fn open_named(path: &Path) -> io::Result<File> {
    ensure_answers(path)?;
    open_untouched(path)
}

fn text_of(path: PathBuf, file: File) -> io::Result<(MappedFile, Option<FileText>)> {
    let metadata = file.metadata()?;
    let mapped = MappedFile {
        id: FileId::of(&metadata),
        generation: 0,
    };
    // A file that is no program has no text.
    let Ok(program) = Program::from_file(&path, file) else {
        return Ok((mapped, None));
    };
    if program.ensure_native().is_err() {
        return Ok((mapped, None));
    }
    let state = program.state();
    let machine = here().map_err(io::Error::other)?;
    let host = &machine.host;
    let program = ProgramOnHost::new(program, host).map_err(io::Error::other)?;
    let stays = stays(&machine, &program.program.file, &path);
    let text = held_text(&program).map(|(gain, ranges)| FileText {
        stays,
        leaf: host.leaf,
        gain,
        state,
        ranges,
        obstacle: program
            .large_folio_obstacle(host.leaf)
            .map(|cause| cause.to_string()),
        is_public: is_public(&path),
        path,
    });
    Ok((mapped, text))
}

/// Whether the filesystem of an open file stays mounted. The mount of a container ends with it, and its files are
/// opened through one of its processes only where no layer can be seen: these are let go with that process.
fn stays(machine: &Here, file: &File, path: &Path) -> bool {
    let lasts = |mount: MountedOn| machine.lasting.has(&mount);
    path.starts_with("/proc") || machine.host.mounts.of(file).is_ok_and(lasts)
}

/// What can be held of a program: its windows, or else its text if that is worth it.
fn held_text(program: &ProgramOnHost<'_>) -> Option<(Gain, Vec<Span>)> {
    let windows = program.windows();
    if windows.is_empty() {
        return Some((Gain::Folios, program.text_to_enlarge()?));
    }
    let bytes: u64 = windows.iter().map(Span::len).sum();
    Some((Gain::Windows(bytes / program.host.leaf.bytes()), windows))
}

/// A file to make huge and hold.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    /// Its number.
    pub(crate) key: Key,
    /// Its text, as it was when it was looked at.
    pub(crate) text: FileText,
    /// What of it may be locked.
    pub(crate) lockable: Lockable,
}

impl Job for Fill {
    type Target = Key;

    fn target(&self) -> Key {
        self.key
    }
}

/// What is held of a file.
#[derive(Debug)]
pub(crate) struct Filled {
    /// The number of the file.
    pub(crate) key: Key,
    /// Where it was opened.
    pub(crate) path: PathBuf,
    /// The file as it was.
    pub(crate) state: FileState,
    /// The locked windows; `None` if none is huge.
    pub(crate) held: Option<HeldText>,
    /// The windows of the text.
    pub(crate) windows: u64,
    /// How many of them are huge.
    pub(crate) huge: u64,
    /// Why not all of it is as it should be; `None` if it is.
    pub(crate) obstacle: Option<Hindrance>,
    /// Whether processes that map it were in the way.
    pub(crate) is_in_use: bool,
    /// Bytes of its text in the page cache by NUMA node; empty on a machine of one node.
    pub(crate) nodes: NodeBytes,
    /// Processor time that it took.
    pub(crate) cost: Duration,
}

#[cfg(test)]
impl Filled {
    /// A fill that locked nothing.
    pub(crate) fn failed(key: Key, why: Hindrance, cost: Duration) -> Filled {
        let metadata = std::fs::metadata("/proc/self/exe").unwrap();
        Filled {
            key,
            path: PathBuf::from("/proc/self/exe"),
            state: FileState::of(&metadata),
            held: None,
            windows: 1,
            huge: 0,
            obstacle: Some(why),
            is_in_use: true,
            nodes: NodeBytes::default(),
            cost,
        }
    }
}

/// Makes windows huge in place, and locks those that are; without windows, the text in larger folios.
pub(crate) fn fill(job: Fill) -> Result<Filled, Hindrance> {
    try_fill(job).map_err(|error| Hindrance::Failed(plain(error)))
}

fn try_fill(job: Fill) -> Result<Filled, Error> {
    let (text, lockable) = (job.text, job.lockable);
    let before = own_time();
    let failed = |source| Error::Io {
        path: text.path.clone(),
        source,
    };
    let file = open_named(&text.path).map_err(failed)?;
    let program = Program::from_file(&text.path, file).map_err(|error| error.at(&text.path))?;
    if program.state() != text.state {
        return Err(failed(io::Error::other(
            "it has changed since it was looked at",
        )));
    }
    let machine = here()?;
    let host = &machine.host;
    // A file may belong to any user: it is read, and never mapped executable.
    let program = ProgramOnHost::new(program, host)?.only_read();
    let warmed = match text.gain {
        Gain::Windows(_) => warm_windows(&program, &text, &lockable)?,
        Gain::Folios => warm_folios(&program, &text, &lockable)?,
    };
    let lock = |ranges: &[Span]| HeldText::lock(&program, ranges, text.leaf);
    let held = warmed.lockable.as_deref().map(lock).transpose()?;
    let locked = held.as_ref().map_or(0, HeldText::bytes);
    let is_whole = held.is_some() && locked >= text.ranges.iter().map(Span::len).sum();
    let outcome = warmed.outcome.with_holders(&program.program.file);
    Ok(Filled {
        key: job.key,
        state: text.state,
        is_in_use: !is_whole && outcome.is_in_use,
        obstacle: if is_whole {
            None
        } else if warmed.is_foreign {
            Some(Hindrance::ChargedElsewhere)
        } else if outcome.is_in_use {
            Some(Hindrance::InUse(warmed.tried, outcome.holders))
        } else {
            Some(Hindrance::NotHuge(warmed.tried))
        },
        held,
        windows: text.windows(),
        huge: match text.gain {
            Gain::Windows(_) => locked / text.leaf.bytes(),
            Gain::Folios => 0,
        },
        nodes: nodes_of(&program),
        path: text.path,
        cost: own_time().saturating_sub(before),
    })
}

/// What warming gave.
struct Warmed {
    outcome: WarmOutcome,
    /// What is to be locked; `None` if nothing is.
    lockable: Option<Vec<Span>>,
    /// Whether something is huge that may not be locked.
    is_foreign: bool,
    /// Why not all of it is huge, if that is so.
    tried: String,
}

/// The windows of a text that are huge now.
fn huge_windows(program: &ProgramOnHost<'_>, text: &FileText) -> Result<Vec<Span>, Error> {
    let cache = program.page_cache(&text.ranges, text.leaf)?;
    let huge = cache
        .windows()
        .filter(|(_, state)| *state == WindowState::Huge);
    Ok(huge.map(|(window, _)| window).collect())
}

fn warm_windows(
    program: &ProgramOnHost<'_>,
    text: &FileText,
    lockable: &Lockable,
) -> Result<Warmed, Error> {
    let foreign = lockable.foreign(|| huge_windows(program, text))?;
    let outcome = warm_ranges(program, &text.ranges, text.leaf, WarmPolicy::InPlace)?;
    let mut huge = huge_windows(program, text)?;
    huge.retain(|window| !foreign.contains(window));
    let huge = Span::joined(huge);
    Ok(Warmed {
        tried: outcome.obstacle(),
        outcome,
        lockable: (!huge.is_empty()).then_some(huge),
        is_foreign: !foreign.is_empty(),
    })
}

fn warm_folios(
    program: &ProgramOnHost<'_>,
    text: &FileText,
    lockable: &Lockable,
) -> Result<Warmed, Error> {
    let outcome = warm_unused(program, recent_holders)?;
    let are_largest = outcome.is_in_largest_folios();
    let were_largest = are_largest && outcome.method == Some(WarmMethod::AlreadyHuge);
    let foreign = lockable.foreign(|| Ok::<_, Error>(text.ranges.clone()))?;
    let is_foreign = were_largest && !foreign.is_empty();
    Ok(Warmed {
        outcome,
        lockable: (are_largest && !is_foreign).then(|| text.ranges.clone()),
        is_foreign,
        tried: "its text is in small folios".to_owned(),
    })
}

/// On which nodes the text of a program lies. Where that is unknown, none is said to be far.
fn nodes_of(program: &ProgramOnHost<'_>) -> NodeBytes {
    match Nodes::this().with_memory().as_slice() {
        [] | [_] => NodeBytes::default(),
        _ => cached_by_node(program).unwrap_or_default(),
    }
}
