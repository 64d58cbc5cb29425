//! The page cache of a program's text, brought into a state, held there and checked.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hugetext_engine::{
    AsFound, CachedIn, Error, HeldText, HostContext, ProgramOnHost, TextFolios, WarmPolicy, warm,
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
    /// Dropped, and then in whatever folios a start leaves.
    Found,
    /// In folios of the leaf's order or, without windows, in the largest that the file can fill, as after
    /// `hugetext warm`.
    Huge,
}

/// How a state was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Something else made the text huge.
    Warmed,
    /// Pages were reclaimed, or read again in other folios.
    Dropped,
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
                FolioState::Found => self.forget()?,
                FolioState::Huge => drop(warm(&self.program, WarmPolicy::InPlace)?),
            }
            let held = HeldState::new(self, state)?;
            if held.lost()?.is_none() {
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
        let pieces = match self.unit {
            Unit::Windows => self.ranges.clone(),
            Unit::Text => self.program.loaded_pieces(),
        };
        self.with_each(&pieces, |windows| windows.make_small())
    }

    /// Drops all that a start reads.
    fn forget(&self) -> Result<(), BenchError> {
        self.with_each(&self.program.loaded_pieces(), |windows| windows.forget())
    }

    fn with_each(
        &self,
        pieces: &[Span],
        act: impl Fn(&FileWindows<'_>) -> io::Result<()>,
    ) -> Result<(), BenchError> {
        let file = &self.program.program.file;
        pieces
            .iter()
            .try_for_each(|range| act(&FileWindows::new(file, *range, self.leaf)))
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
            FolioState::Small => {
                let problem = "its text stays in huge folios: something makes it huge again";
                return Ok(BenchError::at(path, problem).remedy(STOP_IT));
            }
            FolioState::Found => "it cannot be dropped from the page cache".to_owned(),
            FolioState::Huge => warm(&self.program, WarmPolicy::InPlace)?.obstacle(),
        };
        Ok(BenchError::at(path, problem).remedy("try a copy on ext4, xfs or a huge=always tmpfs"))
    }
}

/// What to do about something else that makes text huge.
pub(crate) const STOP_IT: &str = "`hugetext auto status` tells whether the autopilot does; stop it, or measure a copy (bench exec --copy)";

/// A text whose page cache is in a state and locked against reclaim. Some machines drop pages that
/// were not touched for seconds; then both sides of a comparison would measure the disk.
pub(crate) struct HeldState<'t> {
    text: &'t CachedText<'t>,
    state: FolioState,
    /// `None` of text as found: a lock would read the rest.
    _held: Option<HeldText>,
    locked: bool,
}

impl<'t> HeldState<'t> {
    fn new(text: &'t CachedText<'t>, state: FolioState) -> Result<HeldState<'t>, BenchError> {
        let held = match state {
            FolioState::Found => None,
            FolioState::Small | FolioState::Huge => {
                Some(HeldText::map(&text.program, &text.ranges, text.leaf)?)
            }
        };
        Ok(HeldState {
            text,
            state,
            // RLIMIT_MEMLOCK may forbid the lock. The state is still checked.
            locked: held.as_ref().is_some_and(|held| held.lock_mapped().is_ok()),
            _held: held,
        })
    }

    /// How it was lost; `None` if all of it is in the state now.
    pub(crate) fn lost(&self) -> Result<Option<Lost>, BenchError> {
        match self.text.unit {
            Unit::Text => self.lost_text(),
            Unit::Windows => self.lost_windows(),
        }
    }

    fn lost_text(&self) -> Result<Option<Lost>, BenchError> {
        let folios = folios(&self.text.program)?;
        let is_largest = folios.is_some_and(|folios| folios.are_largest());
        let is_cached = folios.is_some_and(|folios| matches!(folios.now, CachedIn::Folios(_)));
        Ok(match self.state {
            FolioState::Found => None,
            FolioState::Small if is_largest => Some(Lost::Warmed),
            FolioState::Small => (!is_cached).then_some(Lost::Dropped),
            FolioState::Huge => (!is_largest).then_some(Lost::Dropped),
        })
    }

    fn lost_windows(&self) -> Result<Option<Lost>, BenchError> {
        let text = self.text;
        let cache = text.program.page_cache(&text.ranges, text.leaf)?;
        let all = |wanted| cache.count(wanted) == cache.total();
        Ok(match self.state {
            FolioState::Found => None,
            FolioState::Small if cache.huge() > 0 => Some(Lost::Warmed),
            FolioState::Small => (!all(WindowState::Small)).then_some(Lost::Dropped),
            FolioState::Huge => (!all(WindowState::Huge)).then_some(Lost::Dropped),
        })
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
            (_, FolioState::Found) => {
                let lies = AsFound::of(&self.text.program);
                let lies =
                    lies.map_or_else(|_| "in unknown folios".to_owned(), |lies| lies.to_string());
                return format!("dropped, then started; {lies}");
            }
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
