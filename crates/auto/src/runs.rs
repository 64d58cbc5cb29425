//! Whether files are run at this moment, as far as starts and ends are seen.
//!
//! Without MADV_COLLAPSE, a window is made huge only while nobody maps it. A build maps its compiler all the time, and
//! then not at all for a few seconds. Tries that come ever later would miss these seconds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use hugetext_host::Pid;

use crate::catalog::Key;

/// A file that nobody has run for so long may be left alone for longer.
const IDLE: Duration = Duration::from_secs(1);
/// The most processes that are counted. The rest run nothing.
const MOST_PROCESSES: usize = 32_768;

/// Counts who runs the files that were in use when they should have been made huge. What ran before that is not
/// counted, so a file may be in use that seems idle.
#[derive(Debug, Default)]
pub struct Runs {
    /// When the last counted process of a file ended; `None` before, and while one runs.
    idle_since: BTreeMap<Key, Option<Duration>>,
    /// The counted processes of each of these files.
    counts: BTreeMap<Key, usize>,
    by: HashMap<Pid, Vec<Key>>,
}

impl Runs {
    /// From now on, or anew, counts who runs a file.
    pub fn watch(&mut self, key: Key) {
        self.idle_since.insert(key, None);
    }

    /// A file is not in the way any more.
    pub fn forget(&mut self, key: Key) {
        self.idle_since.remove(&key);
        self.counts.remove(&key);
        if self.idle_since.is_empty() {
            self.by.clear();
        }
    }

    /// Whether a file is counted.
    pub fn watches(&self, key: Key) -> bool {
        self.idle_since.contains_key(&key)
    }

    /// Whether any file is counted.
    pub fn watches_any(&self) -> bool {
        !self.idle_since.is_empty()
    }

    /// A process has begun to run a file that is counted.
    pub fn started(&mut self, pid: Pid, key: Key) {
        if !self.watches(key) || self.by.len() >= MOST_PROCESSES {
            return;
        }
        let keys = self.by.entry(pid).or_default();
        // Its text may be mapped in several pieces.
        if !keys.contains(&key) {
            keys.push(key);
            let count = self.counts.entry(key).or_default();
            *count = count.saturating_add(1);
        }
        self.idle_since.insert(key, None);
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: Pid, now: Duration) {
        for key in self.by.remove(&pid).into_iter().flatten() {
            let Some(count) = self.counts.get_mut(&key) else {
                continue;
            };
            *count = count.saturating_sub(1);
            if *count == 0 && self.watches(key) {
                self.idle_since.insert(key, Some(now));
            }
        }
    }

    /// Whether a counted file was run, and nobody has run it for a second.
    pub fn is_idle(&self, key: Key, now: Duration) -> bool {
        let since = self.idle_since.get(&key).copied().flatten();
        since.is_some_and(|since| now.saturating_sub(since) >= IDLE)
    }

    /// The counted files that are idle.
    pub fn idle(&self, now: Duration) -> Vec<Key> {
        let keys = self.idle_since.keys().copied();
        keys.filter(|key| self.is_idle(*key, now)).collect()
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
        runs.ended(pid(1), SECOND);
        assert_eq!(runs.idle(9 * SECOND), [0; 0], "nobody counts it");
        runs.watch(7);
        // Two pieces of text are one process.
        for number in [1, 1, 2] {
            runs.started(pid(number), 7);
        }
        runs.ended(pid(1), SECOND);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.ended(pid(2), 2 * SECOND);
        assert!(!runs.is_idle(7, 2 * SECOND) && runs.is_idle(7, 3 * SECOND));
        assert_eq!(runs.idle(3 * SECOND), [7]);
        // Somebody starts it again.
        runs.started(pid(3), 7);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.ended(pid(3), 4 * SECOND);
        // A try that failed waits for the next end.
        runs.watch(7);
        assert!(!runs.is_idle(7, 9 * SECOND));
        runs.forget(7);
        assert!(!runs.watches_any());
    }
}
