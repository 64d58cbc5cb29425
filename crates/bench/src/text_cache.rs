//! The page cache of a program's text, brought into a state, held there and checked.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hugetext_engine::{HeldText, HostContext, ProgramOnHost, WarmPolicy, warm};
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
    /// In folios of the leaf's order, as after `hugetext warm`.
    Huge,
}

/// A program with its windows.
pub(crate) struct CachedText<'h> {
    program: ProgramOnHost<'h>,
    windows: Vec<Span>,
    leaf: Leaf,
}

impl<'h> CachedText<'h> {
    /// The read-only windows of the program at `path`; none if its layout has none.
    pub(crate) fn of(path: &Path, host: &'h HostContext) -> Result<CachedText<'h>, BenchError> {
        let program = ProgramOnHost::open(path, host)?;
        Ok(CachedText {
            windows: program.windows(),
            leaf: host.leaf,
            program,
        })
    }

    /// The number of windows.
    pub(crate) fn count(&self) -> u64 {
        self.windows.iter().map(Span::len).sum::<u64>() / self.leaf.bytes()
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
        self.windows
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
        let held = HeldText::map(&text.program, &text.windows, text.leaf)?;
        Ok(HeldState {
            text,
            state,
            // RLIMIT_MEMLOCK may forbid the lock. The state is still checked.
            locked: held.lock_mapped().is_ok(),
            _held: held,
        })
    }

    /// Whether every window is in the state now.
    pub(crate) fn stands(&self) -> Result<bool, BenchError> {
        let wanted = match self.state {
            FolioState::Small => WindowState::Small,
            FolioState::Huge => WindowState::Huge,
        };
        let text = self.text;
        let cache = text.program.page_cache(&text.windows, text.leaf)?;
        Ok(cache.count(wanted) == cache.total())
    }

    /// The state that was reached, for the reader.
    pub(crate) fn describe(&self) -> String {
        let (number, leaf) = (self.text.count(), self.text.leaf);
        let size = bytes(number * leaf.bytes());
        let windows = count(number, "window");
        let folios = match self.state {
            FolioState::Small => "in small folios",
            FolioState::Huge => "huge",
        };
        let held = if self.locked {
            "held by mlock"
        } else {
            "not held: RLIMIT_MEMLOCK is too small"
        };
        format!("{windows} of {leaf} ({size}) {folios}, {held}")
    }
}
