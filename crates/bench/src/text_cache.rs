//! The page cache of a program's text, brought into a state, held there and checked.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hugetext_engine::{
    CachedIn, Error, HeldText, HostContext, ProgramOnHost, TextFolios, WarmPolicy, warm,
};
use hugetext_host::{FileWindows, WindowState, holders};
use hugetext_leaf::{Leaf, Span};

use crate::error::BenchError;
use crate::error::BenchStop;
use crate::quantity::{bytes, count};

/// How long to wait for a program that other processes run just now.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);

/// The state of the page cache of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolioState {
    /// In the folios of fault readahead, as on a machine without this project.
    Small,
    /// In folios of the leaf's order or, without windows, in the largest that the file can fill, as after
    /// `hugetext warm`.
    Huge,
}

/// What is brought into a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Windows of the leaf.
    Windows,
    /// Text without windows.
    Text,
}

/// A program with its windows or, without windows, its text.
pub(crate) struct CachedText<'h> {
    program: ProgramOnHost<'h>,
    unit: Unit,
    /// Empty if no state of it can be seen.
    ranges: Vec<Span>,
    leaf: Leaf,
}

impl<'h> CachedText<'h> {
    /// The read-only windows of the program at `path`. If its layout has none, its text, unless that is small
    /// or this user does not see its folios.
    pub(crate) fn of(path: &Path, host: &'h HostContext) -> Result<CachedText<'h>, BenchError> {
        let program = ProgramOnHost::open(path, host)?;
        let windows = program.windows();
        let (unit, ranges) = if windows.is_empty() {
            let text = program.text_to_enlarge().unwrap_or_default();
            let is_seen = !text.is_empty()
                && folios(&program)?.is_some_and(|folios| folios.now != CachedIn::Hidden);
            (Unit::Text, if is_seen { text } else { Vec::new() })
        } else {
            (Unit::Windows, windows)
        };
        Ok(CachedText {
            unit,
            ranges,
            leaf: host.leaf,
            program,
        })
    }

    /// Whether its page cache can be brought into a state.
    pub(crate) fn has_states(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Brings the page cache into `state` and holds it there. If the kernel does not allow that,
    /// the answer is no, with the obstacle.
    pub(crate) fn bring(&self, state: FolioState) -> Result<HeldState<'_>, BenchStop> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match state {
                FolioState::Small => self.make_small()?,
                FolioState::Huge => drop(warm(&self.program, WarmPolicy::InPlace)?),
            }
            let held = HeldState::new(self, state)?;
            if held.stands()? {
                return Ok(held);
            }
            drop(held);
            if Instant::now() > patience {
                return Err(BenchStop::No(self.obstacle(state)?));
            }
            // A process that runs the program just now keeps its pages.
            thread::sleep(RETRY);
        }
    }

    fn path(&self) -> &Path {
        &self.program.program.path
    }

    fn make_small(&self) -> Result<(), BenchError> {
        let file = &self.program.program.file;
        let pieces = match self.unit {
            Unit::Windows => self.ranges.clone(),
            Unit::Text => self.program.loaded_pieces(),
        };
        pieces
            .iter()
            .try_for_each(|range| FileWindows::new(file, *range, self.leaf).make_small())
            .map_err(|error| BenchError::io(self.path(), &error))
    }

    /// Why the page cache did not come into `state`.
    fn obstacle(&self, state: FolioState) -> Result<BenchError, BenchError> {
        let path = self.path();
        let holders = holders(&self.program.program.file).unwrap_or_default();
        let names: Vec<String> = holders
            .iter()
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        if !names.is_empty() {
            let who = names.join(", ");
            return Ok(BenchError::at(path, format_args!("in use by {who}"))
                .remedy("end them, or measure a copy (bench exec --copy)"));
        }
        let problem = match state {
            FolioState::Small => "its text stays in huge folios".to_owned(),
            FolioState::Huge => warm(&self.program, WarmPolicy::InPlace)?.obstacle(),
        };
        Ok(BenchError::at(path, problem).remedy("try a copy on ext4, xfs or a huge=always tmpfs"))
    }
}

/// A text whose page cache is in a state and locked against reclaim. Some machines drop pages that
/// were not touched for seconds; then both sides of a comparison would measure the disk.
pub(crate) struct HeldState<'t> {
    text: &'t CachedText<'t>,
    state: FolioState,
    _held: HeldText,
    locked: bool,
}

impl<'t> HeldState<'t> {
    fn new(text: &'t CachedText<'t>, state: FolioState) -> Result<HeldState<'t>, BenchError> {
        let held = HeldText::map(&text.program, &text.ranges, text.leaf)?;
        Ok(HeldState {
            text,
            state,
            // RLIMIT_MEMLOCK may forbid the lock. The state is still checked.
            locked: held.lock_mapped().is_ok(),
            _held: held,
        })
    }

    /// Whether all of it is in the state now.
    pub(crate) fn stands(&self) -> Result<bool, BenchError> {
        if self.text.unit == Unit::Text {
            let folios = folios(&self.text.program)?;
            return Ok(folios.is_some_and(|folios| match self.state {
                FolioState::Small => {
                    matches!(folios.now, CachedIn::Folios(_)) && !folios.are_largest()
                }
                FolioState::Huge => folios.are_largest(),
            }));
        }
        let wanted = match self.state {
            FolioState::Small => WindowState::Small,
            FolioState::Huge => WindowState::Huge,
        };
        let text = self.text;
        let cache = text.program.page_cache(&text.ranges, text.leaf)?;
        Ok(cache.count(wanted) == cache.total())
    }

    /// The state that was reached, for the reader.
    pub(crate) fn describe(&self) -> String {
        let (len, leaf) = (
            self.text.ranges.iter().map(Span::len).sum::<u64>(),
            self.text.leaf,
        );
        let size = bytes(len);
        let what = match self.text.unit {
            Unit::Windows => format!("{} of {leaf} ({size})", count(len / leaf.bytes(), "window")),
            Unit::Text => format!("no window of {leaf}, {size} of text"),
        };
        let folios = match (self.text.unit, self.state) {
            (_, FolioState::Small) => "in small folios",
            (Unit::Windows, FolioState::Huge) => "huge",
            (Unit::Text, FolioState::Huge) => "in the largest folios",
        };
        let held = if self.locked {
            "held by mlock"
        } else {
            "not held: RLIMIT_MEMLOCK is too small"
        };
        format!("{what} {folios}, {held}")
    }
}

/// The folios of text without windows; `None` if its filesystem has no large ones.
fn folios(program: &ProgramOnHost<'_>) -> Result<Option<TextFolios>, Error> {
    Ok(warm(program, WarmPolicy::LookOnly)?.folios)
}
