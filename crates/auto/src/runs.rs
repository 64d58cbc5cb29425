//! Whether files are run at this moment, as far as starts and ends are seen.
//!
//! Without MADV_COLLAPSE, a window is made huge only while nobody maps it. A build maps its compiler all the time, and
//! then not at all for a few seconds. Tries that come ever later would miss these seconds.

use std::collections::{BTreeMap, HashSet};
use std::mem::take;
use std::time::Duration;

use hugetext_host::Pid;

use crate::catalog::Key;

/// A file that nobody has run for so long may be left alone for longer.
const IDLE: Duration = Duration::from_secs(1);
/// The most processes of a file that are known: ends may be lost.
const MOST_PROCESSES: usize = 32_768;

/// A file that was in use when it should have been made huge.
#[derive(Debug, Default)]
struct Watched {
    /// The processes that began to run it since then.
    running: HashSet<Pid>,
    /// When the last of them ended; `None` before, and while one runs.
    idle_since: Option<Duration>,
}

impl Watched {
    fn is_idle(&self, now: Duration) -> bool {
        let since = self.idle_since;
        since.is_some_and(|since| now.saturating_sub(since) >= IDLE)
    }
}

/// Who runs the files that were in use when they should have been made huge. What ran before that is not
/// known, so a file may be in use that seems idle.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    files: BTreeMap<Key, Watched>,
    /// The processes that ended since the last [`Runs::settle`].
    ended: HashSet<Pid>,
    /// Those that had ended then.
    ended_before: HashSet<Pid>,
}

impl Runs {
    /// From now on, or anew, watches who runs a file.
    pub(crate) fn watch(&mut self, key: Key) {
        self.files.entry(key).or_default().idle_since = None;
    }

    /// A file is not in the way any more.
    pub(crate) fn forget(&mut self, key: Key) {
        self.files.remove(&key);
    }

    /// Whether any file is watched.
    pub(crate) fn watches_any(&self) -> bool {
        !self.files.is_empty()
    }

    /// A process has begun to run a file, whose text may be mapped in several pieces.
    pub(crate) fn started(&mut self, pid: Pid, key: Key) {
        if let Some(file) = self.files.get_mut(&key)
            && file.running.len() < MOST_PROCESSES
        {
            file.running.insert(pid);
            file.idle_since = None;
        }
    }

    /// A process has ended. Reports of several processors come in no order, so it counts as running until
    /// [`Runs::settle`].
    pub(crate) fn ended(&mut self, pid: Pid) {
        if self.watches_any() {
            self.ended.insert(pid);
        }
    }

    /// Forgets the processes that have ended. Called after each batch of reports. The beginning of a process may be in
    /// the batch after that with its end, so an end counts in two.
    pub(crate) fn settle(&mut self, now: Duration) {
        for file in self
            .files
            .values_mut()
            .filter(|file| !file.running.is_empty())
        {
            let ended = |pid: &Pid| self.ended.contains(pid) || self.ended_before.contains(pid);
            file.running.retain(|pid| !ended(pid));
            if file.running.is_empty() {
                file.idle_since = Some(now);
            }
        }
        self.ended_before = take(&mut self.ended);
    }

    /// Whether a watched file was run, and nobody has run it for a second.
    pub(crate) fn is_idle(&self, key: Key, now: Duration) -> bool {
        self.files.get(&key).is_some_and(|file| file.is_idle(now))
    }

    /// The watched files that are idle.
    pub(crate) fn idle(&self, now: Duration) -> Vec<Key> {
        let idle = self.files.iter().filter(|(_, file)| file.is_idle(now));
        idle.map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn a_file_is_idle_a_second_after_its_last_process() {
        let mut runs = Runs::default();
        runs.started(pid(1), 7);
        runs.ended(pid(1));
        runs.settle(SECOND);
        assert_eq!(runs.idle(9 * SECOND), [0; 0], "nobody counts it");
        runs.watch(7);
        // Two pieces of text are one process.
        for number in [1, 1, 2] {
            runs.started(pid(number), 7);
        }
        runs.ended(pid(1));
        runs.settle(SECOND);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.ended(pid(2));
        runs.settle(2 * SECOND);
        assert!(!runs.is_idle(7, 2 * SECOND) && runs.is_idle(7, 3 * SECOND));
        assert_eq!(runs.idle(3 * SECOND), [7]);
        // Somebody starts it again.
        runs.started(pid(3), 7);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.ended(pid(3));
        runs.settle(4 * SECOND);
        // A try that failed waits for the next end.
        runs.watch(7);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.started(pid(4), 7);
        runs.forget(7);
        assert!(!runs.watches_any());
        // Who ran it before it was watched anew does not count.
        runs.watch(7);
        runs.started(pid(5), 7);
        runs.ended(pid(4));
        runs.settle(5 * SECOND);
        assert!(!runs.is_idle(7, 9 * SECOND));
    }

    /// It ran on one processor and ended on another, whose records were read first.
    #[test]
    fn an_end_may_be_told_before_its_beginning() {
        let mut runs = Runs::default();
        runs.watch(7);
        runs.ended(pid(1));
        runs.started(pid(1), 7);
        runs.settle(SECOND);
        assert!(runs.is_idle(7, 2 * SECOND));
        // Even if the next records have the beginning.
        runs.watch(7);
        runs.ended(pid(2));
        runs.settle(SECOND);
        runs.started(pid(2), 7);
        runs.settle(2 * SECOND);
        assert!(runs.is_idle(7, 3 * SECOND));
        // Another process may get the number later.
        runs.started(pid(2), 7);
        runs.settle(3 * SECOND);
        assert!(!runs.is_idle(7, 9 * SECOND));
    }
}
