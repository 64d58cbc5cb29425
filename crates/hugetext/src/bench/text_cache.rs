//! The page cache of a program's text, brought into a state, held there and checked.

use std::thread;
use std::time::{Duration, Instant};

use hugetext_host::{FileMapping, FileWindows, WindowState, holders};
use hugetext_leaf::{Leaf, Span};

use super::Stop;
use crate::failure::Failure;
use crate::program::Program;
use crate::table::{bytes, count};
use crate::warm::{self, Climb, Ground};

/// How long to wait for a program that other processes run just now.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);

/// The state of the page cache of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// In the folios of fault readahead, as on a machine without this project.
    Small,
    /// In folios of the leaf's order, as after `hugetext warm`.
    Huge,
}

/// A program with its windows.
pub(super) struct Text {
    program: Program,
    windows: Vec<Span>,
    leaf: Leaf,
}

impl Text {
    /// The read-only windows of a program; none if its layout has none.
    pub(super) fn of(program: Program, ground: &Ground) -> Result<Text, Failure> {
        Ok(Text {
            windows: warm::windows(&program, ground)?,
            leaf: ground.leaf,
            program,
        })
    }

    /// The number of windows.
    pub(super) fn count(&self) -> u64 {
        self.windows.iter().map(Span::len).sum::<u64>() / self.leaf.bytes()
    }

    /// Brings the page cache into `state` and holds it there. If the kernel does not allow that,
    /// the answer is no, with the obstacle.
    pub(super) fn bring(&self, state: State, ground: &Ground) -> Result<Held<'_>, Stop> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match state {
                State::Small => self.make_small()?,
                State::Huge => drop(warm::warm(&self.program, ground, Climb::in_place())?),
            }
            let held = Held::new(self, state)?;
            if held.stands()? {
                return Ok(held);
            }
            drop(held);
            if Instant::now() > patience {
                return Err(Stop::No(self.obstacle(state, ground)?));
            }
            // A process that runs the program just now keeps its pages.
            thread::sleep(RETRY);
        }
    }

    fn runs(&self) -> impl Iterator<Item = FileWindows<'_>> {
        let windows = self.windows.iter();
        windows.map(|range| FileWindows::new(&self.program.file, *range, self.leaf))
    }

    fn make_small(&self) -> Result<(), Failure> {
        self.runs()
            .try_for_each(|run| run.make_small())
            .map_err(|error| Failure::io(&self.program.path, &error))
    }

    /// Why the page cache did not come into `state`.
    fn obstacle(&self, state: State, ground: &Ground) -> Result<Failure, Failure> {
        let path = &self.program.path;
        let holders = holders(&self.program.file).unwrap_or_default();
        let names: Vec<String> = holders
            .iter()
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        if !names.is_empty() {
            let who = names.join(", ");
            return Ok(Failure::at(path, format_args!("in use by {who}"))
                .remedy("end them, or measure a copy (bench exec --copy)"));
        }
        let problem = match state {
            State::Small => "its text stays in huge folios".to_owned(),
            State::Huge => warm::warm(&self.program, ground, Climb::in_place())?.obstacle(),
        };
        Ok(Failure::at(path, problem).remedy("try a copy on ext4, xfs or a huge=always tmpfs"))
    }
}

/// A text whose page cache is in a state and locked against reclaim. Some machines drop pages that
/// were not touched for seconds; then both sides of a comparison would measure the disk.
pub(super) struct Held<'t> {
    text: &'t Text,
    state: State,
    mappings: Vec<FileMapping>,
    locked: bool,
}

impl<'t> Held<'t> {
    fn new(text: &'t Text, state: State) -> Result<Held<'t>, Failure> {
        let mut held = Held {
            text,
            state,
            mappings: Vec::new(),
            locked: true,
        };
        for run in text.runs() {
            let mapping = run
                .map()
                .map_err(|error| Failure::io(&text.program.path, &error))?;
            // RLIMIT_MEMLOCK may forbid the lock. The state is still checked.
            held.locked &= mapping.lock().is_ok();
            held.mappings.push(mapping);
        }
        Ok(held)
    }

    /// Whether every window is in the state now.
    pub(super) fn stands(&self) -> Result<bool, Failure> {
        let wanted = match self.state {
            State::Small => WindowState::Small,
            State::Huge => WindowState::Huge,
        };
        for run in self.text.runs() {
            let state = run
                .state()
                .map_err(|error| Failure::io(&self.text.program.path, &error))?;
            if state.count(wanted) != state.windows.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The state that was reached, for the reader.
    pub(super) fn describe(&self) -> String {
        let (number, leaf) = (self.text.count(), self.text.leaf);
        let size = bytes(number * leaf.bytes());
        let windows = count(number, "window");
        let folios = match self.state {
            State::Small => "in small folios",
            State::Huge => "huge",
        };
        let held = match self.locked {
            true => "held by mlock",
            false => "not held: RLIMIT_MEMLOCK is too small",
        };
        format!("{windows} of {leaf} ({size}) {folios}, {held}")
    }
}
