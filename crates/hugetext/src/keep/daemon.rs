//! `hugetext keep daemon`: what `warm` warms, locked in memory, so that reclaim leaves it alone, and
//! taken up anew when an upgrade replaces it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::{FileMapping, FileWindows, Watcher};
use serde::Serialize;

use super::{Options, apply, directories, read};
use crate::Verdict;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::program::Program;
use crate::size::Size;
use crate::table::{bytes, count};
use crate::warm::{Ground, windows};

/// An upgrade replaces many files; it is over when none has changed for this long.
const QUIET: Duration = Duration::from_secs(1);
/// What is not locked, because of the budget, is warmed again this often.
const REWARM: Duration = Duration::from_secs(60);

/// Runs until it is killed; the kernel unlocks the memory then.
pub(super) fn run(options: &Options, budget: Size, output: &Output) -> Result<Verdict, Failure> {
    let lists = directories(options)?;
    let watcher = Watcher::new().map_err(|error| Failure::new("inotify", plain(&error)))?;
    let mut pinned = Vec::new();
    loop {
        let mut round = Round::of(&lists, options, budget, output)?;
        for directory in &round.directories {
            // A directory that is not there yet has no file to lose.
            let _ = watcher.add(directory);
        }
        // The new mappings are locked before the old ones go, so nothing turns cold in between.
        drop(std::mem::replace(
            &mut pinned,
            std::mem::take(&mut round.pinned),
        ));
        for problem in &round.problems {
            output.warn(problem);
        }
        output.event("keep daemon", &round, |round| {
            format!(
                "{} locked in {}, {} over the budget",
                bytes(round.locked),
                count(round.files, "file"),
                bytes(round.over)
            )
        })?;
        let timeout = (round.over > 0).then_some(REWARM);
        wait_for_change(&watcher, &round.names, timeout)
            .map_err(|error| Failure::new("inotify", plain(&error)))?;
    }
}

/// Returns when one of the named files, or a list, has changed and all is quiet again, or after
/// `timeout`.
fn wait_for_change(
    watcher: &Watcher,
    names: &HashSet<std::ffi::OsString>,
    timeout: Option<Duration>,
) -> std::io::Result<()> {
    loop {
        let changed = watcher.wait(timeout)?;
        let concerns = |name: &std::ffi::OsString| {
            name.is_empty()
                || names.contains(name)
                || Path::new(name).extension().is_some_and(|e| e == "toml")
        };
        if changed.iter().any(concerns) {
            while !watcher.wait(Some(QUIET))?.is_empty() {}
            return Ok(());
        }
        if changed.is_empty() && timeout.is_some() {
            return Ok(());
        }
    }
}

/// Everything listed, as it is now.
#[derive(Default, Serialize)]
struct Round {
    #[serde(skip)]
    pinned: Vec<FileMapping>,
    /// Bytes locked.
    locked: u64,
    /// Files locked.
    files: usize,
    /// Bytes that the budget left out.
    over: u64,
    /// What to watch.
    #[serde(skip)]
    directories: HashSet<PathBuf>,
    #[serde(skip)]
    names: HashSet<std::ffi::OsString>,
    /// What could not be kept, a line each.
    problems: Vec<String>,
}

impl Round {
    fn of(
        lists: &[PathBuf],
        options: &Options,
        budget: Size,
        output: &Output,
    ) -> Result<Round, Failure> {
        let (list, _) = read(lists, output);
        let applied = apply(&list, options)?;
        let ground = Ground::this()?;
        let mut round = Round {
            directories: lists.iter().cloned().collect(),
            problems: applied.problems,
            ..Round::default()
        };
        for file in &applied.files {
            round
                .directories
                .extend(file.path.parent().map(Path::to_owned));
            round
                .names
                .extend(file.path.file_name().map(ToOwned::to_owned));
            if let Err(failure) = round.pin(&file.warm, &ground, budget) {
                round.problems.push(failure.to_string());
            }
        }
        Ok(round)
    }

    fn pin(&mut self, path: &Path, ground: &Ground, budget: Size) -> Result<(), Failure> {
        let program = Program::open(path)?;
        let ranges = windows(&program, ground)?;
        let len: u64 = ranges.iter().map(|range| range.len()).sum();
        if self.locked.saturating_add(len) > budget.bytes() {
            self.over += len;
            return Ok(());
        }
        for range in ranges {
            let failed = |error: std::io::Error| {
                let failure = Failure::at(path, format!("not locked: {}", plain(&error)));
                failure.remedy("raise the limit of locked memory (ulimit -l)")
            };
            let mapping = FileWindows::new(&program.file, range, ground.leaf)
                .map()
                .map_err(failed)?;
            mapping.lock().map_err(failed)?;
            self.pinned.push(mapping);
        }
        self.locked += len;
        self.files += 1;
        Ok(())
    }
}
