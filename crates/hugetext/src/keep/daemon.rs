//! `hugetext keep daemon`: warms the files that the lists name, as `warm` does, and locks them in
//! memory, so that reclaim leaves them. It starts again with a file that an upgrade replaces.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_host::{Change, FileMapping, FileState, FileWindows, Watcher};
use serde::Serialize;

use super::list::List;
use super::places::Places;
use super::{Options, apply, directories, read};
use crate::Verdict;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::program::Program;
use crate::run::Room;
use crate::size::Size;
use crate::table::{bytes, count};
use crate::warm::{Ground, windows};

/// An upgrade replaces many files. It is over when none of them has changed for this long.
const QUIET: Duration = Duration::from_secs(1);
/// The longest wait for an upgrade, since some files may change all the time.
const SETTLED: Duration = Duration::from_secs(5);
/// The time between two looks at all files. Files that are not locked, because of the budget,
/// become cold, and some changes are not reported (network filesystems, programs moved along PATH).
const AGAIN: Duration = Duration::from_secs(60);

/// Runs until it is killed; the kernel then unlocks the memory.
pub(super) fn run(options: &Options, budget: Size, output: &Output) -> Result<Verdict, Failure> {
    let lists = directories(options)?;
    let failed = |error| Failure::new("inotify", plain(&error));
    let mut watcher = Watcher::new().map_err(failed)?;
    let mut pins = Pins::default();
    let mut told = None;
    loop {
        let (list, _) = read(&lists, output);
        let mut places = Places::of(&list, &lists);
        // The watch starts before anything is looked up, so that no change is missed.
        watcher.watch(places.directories());
        let (round, kept) = Round::of(&list, options, budget, pins)?;
        pins = kept;
        round.files.iter().for_each(|path| places.add(path));
        watcher.watch(places.directories());
        let held: BTreeSet<FileState> = pins.keys().copied().collect();
        let news = Some((round.report, held));
        if told != news {
            told = news;
            told.iter()
                .try_for_each(|(report, _)| report.tell(output))?;
        }
        wait_for_change(&mut watcher, &places).map_err(failed)?;
    }
}

/// Returns when a listed file has changed and settled, or when the next look is due.
fn wait_for_change(watcher: &mut Watcher, places: &Places) -> std::io::Result<()> {
    let concern = |changes: Vec<Change>| changes.iter().any(|change| places.concern(change));
    let since = Instant::now();
    while !concern(watcher.wait(AGAIN.saturating_sub(since.elapsed()))?) {
        if since.elapsed() >= AGAIN {
            return Ok(());
        }
    }
    let (begun, mut last) = (Instant::now(), Instant::now());
    while begun.elapsed() < SETTLED && last.elapsed() < QUIET {
        let left = QUIET.saturating_sub(last.elapsed());
        let left = left.min(SETTLED.saturating_sub(begun.elapsed()));
        if concern(watcher.wait(left)?) {
            last = Instant::now();
        }
    }
    Ok(())
}

/// The locked part of each file. While its state is the same, a mapping shows the same content.
type Pins = HashMap<FileState, Vec<FileMapping>>;

/// The report of a round.
#[derive(Default, PartialEq, Eq, Serialize)]
struct Report {
    /// Bytes locked.
    locked: u64,
    /// Files locked.
    files: usize,
    /// Bytes that exceed the budget.
    over: u64,
    /// Limit of the locked bytes.
    budget: u64,
    /// Files that could not be kept, one line each.
    problems: Vec<String>,
}

impl Report {
    fn tell(&self, output: &Output) -> Result<(), Failure> {
        for problem in &self.problems {
            output.warn(problem);
        }
        output.event("keep daemon", self, |report| {
            format!(
                "{} locked in {}, {} over the budget of {}",
                bytes(report.locked),
                count(report.files, "file"),
                bytes(report.over),
                bytes(report.budget)
            )
        })
    }
}

/// Everything listed, in its present state.
struct Round {
    report: Report,
    /// The files, found by following links.
    files: Vec<PathBuf>,
}

impl Round {
    /// Warms everything and locks as much as the budget allows. Files that were locked and have not
    /// changed stay locked. The others are unlocked only after the new ones are locked, so that
    /// nothing becomes cold in between.
    fn of(
        list: &List,
        options: &Options,
        budget: Size,
        mut before: Pins,
    ) -> Result<(Round, Pins), Failure> {
        let applied = apply(list, options)?;
        let ground = Ground::this()?;
        let mut round = Round {
            report: Report {
                // The kernel kills processes that exceed the limit of a control group.
                budget: Room::here().at_most(budget.bytes()),
                problems: applied.problems,
                ..Report::default()
            },
            files: Vec::new(),
        };
        let mut pins = Pins::new();
        for file in applied.files {
            if let Err(failure) = round.pin(&file.warm, &ground, &mut before, &mut pins) {
                round.report.problems.push(failure.to_string());
            }
            round.files.push(file.path);
        }
        Ok((round, pins))
    }

    fn pin(
        &mut self,
        path: &Path,
        ground: &Ground,
        before: &mut Pins,
        pins: &mut Pins,
    ) -> Result<(), Failure> {
        let program = Program::open(path)?;
        let state = FileState::of(&program.metadata);
        let report = &mut self.report;
        if pins.contains_key(&state) {
            // Identical files share a copy in the store.
            report.files += 1;
            return Ok(());
        }
        let ranges = windows(&program, ground)?;
        let len: u64 = ranges.iter().map(|range| range.len()).sum();
        if report.locked.saturating_add(len) > report.budget {
            report.over = report.over.saturating_add(len);
            return Ok(());
        }
        let mappings = match before.remove(&state) {
            Some(mappings) => mappings,
            None => {
                let windows = |range| FileWindows::new(&program.file, range, ground.leaf);
                let lock = |range| {
                    let mapping = windows(range).map()?;
                    mapping.lock()?;
                    Ok(mapping)
                };
                let locked: std::io::Result<Vec<_>> = ranges.into_iter().map(lock).collect();
                locked.map_err(|error| {
                    let failure = Failure::at(path, format!("not locked: {}", plain(&error)));
                    failure.remedy("raise the limit of locked memory (ulimit -l)")
                })?
            }
        };
        pins.insert(state, mappings);
        report.locked += len;
        report.files += 1;
        Ok(())
    }
}
