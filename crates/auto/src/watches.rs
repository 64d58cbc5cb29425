//! Watches the directories of files, so that an upgrade is noticed. The kernel looks a directory up to watch it.
//! That may take forever where a user has put another filesystem in its place, so a thread asks for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hugetext_host::{Change, Done, Watch, Watcher, Worker};

use crate::holder::Wait;
use crate::open::ensure_answers;

/// The directories that are watched, and those that are about to be.
pub struct Watches {
    watcher: Watcher,
    worker: Worker<PathBuf, io::Result<Watch>>,
    asking: Option<PathBuf>,
    queue: VecDeque<PathBuf>,
    wanted: BTreeSet<PathBuf>,
    /// Directories that could not be watched.
    waits: BTreeMap<PathBuf, Wait>,
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watches {{ {:?} }}", self.watcher)
    }
}

impl AsFd for Watches {
    /// Ready when there are changes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watcher.as_fd()
    }
}

impl Watches {
    /// Watches nothing yet. A directory whose watch takes longer than `limit` is given up for a while. `wake` is
    /// called when there is something to [`Watches::finish`].
    pub fn new(limit: Duration, wake: Arc<dyn Fn() + Send + Sync>) -> io::Result<Watches> {
        let watcher = Watcher::new()?;
        let asker = watcher.asker();
        let ask = move |directory: PathBuf| {
            ensure_answers(&directory)?;
            asker.ask(&directory)
        };
        Ok(Watches {
            watcher,
            worker: Worker::new(limit, wake, ask),
            asking: None,
            queue: VecDeque::new(),
            wanted: BTreeSet::new(),
            waits: BTreeMap::new(),
        })
    }

    /// Watches these directories, and no others. If they are others than before, each is looked up again: another
    /// directory may have taken its place.
    pub fn want(&mut self, wanted: BTreeSet<PathBuf>, now: Duration) {
        let is_new = wanted != self.wanted;
        self.wanted = wanted;
        self.watcher.keep(|path| self.wanted.contains(path));
        self.waits.retain(|path, _| self.wanted.contains(path));
        let waits = |path: &Path| self.waits.get(path).is_some_and(|wait| wait.until > now);
        let due = self.wanted.iter().filter(|path| !waits(path));
        let due = due.filter(|path| is_new || !self.watcher.is_watched(path));
        self.queue = due.cloned().collect();
        self.begin();
    }

    fn begin(&mut self) {
        if self.worker.is_free()
            && let Some(directory) = self.queue.pop_front()
        {
            self.asking = Some(directory.clone());
            self.worker.begin(directory);
        }
    }

    /// Takes in what has ended, and begins the next. Returns the directories that were given up.
    pub fn finish(&mut self, now: Duration) -> Vec<PathBuf> {
        let mut given_up = Vec::new();
        while let Some(done) = self.worker.done() {
            let Some(directory) = self.asking.take() else {
                break;
            };
            match done {
                // One that is not wanted any more is dropped by the next `want`.
                Done::Result(Ok(watch)) => {
                    self.waits.remove(&directory);
                    self.watcher.add(watch, directory);
                }
                Done::Result(Err(_)) => self.delay(directory, now),
                Done::GivenUp => {
                    given_up.push(directory.clone());
                    self.delay(directory, now);
                }
            }
            self.begin();
        }
        given_up
    }

    fn delay(&mut self, directory: PathBuf, now: Duration) {
        let wait = Wait::after(self.waits.get(&directory), now);
        self.waits.insert(directory, wait);
    }

    /// Directories that were given up and have not been answered since.
    pub fn lost(&self) -> usize {
        self.worker.lost()
    }

    /// What has changed, without waiting.
    pub fn changes(&mut self) -> io::Result<Vec<Change>> {
        self.watcher.wait(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends all that was begun.
    fn settle(watches: &mut Watches) {
        while watches.worker.is_busy() || !watches.queue.is_empty() {
            assert!(watches.finish(Duration::ZERO).is_empty());
        }
    }

    #[test]
    fn directories_are_watched_in_turn_and_missing_ones_wait() {
        let directory = tempfile::tempdir().unwrap();
        let mut watches = Watches::new(Duration::from_secs(60), Arc::new(|| {})).unwrap();
        let names = ["one", "two"].map(|name| directory.path().join(name));
        for name in &names {
            std::fs::create_dir(name).unwrap();
        }
        let missing = directory.path().join("three");
        let all = names.iter().chain([&missing]).cloned().collect();
        watches.want(all, Duration::ZERO);
        settle(&mut watches);
        for name in &names {
            assert!(watches.watcher.is_watched(name));
            std::fs::write(name.join("program"), "").unwrap();
            assert!(watches.changes().unwrap().contains(&Change::Name {
                directory: name.clone(),
                name: "program".into(),
            }));
        }
        assert!(!watches.watcher.is_watched(&missing));
        assert!(watches.waits.contains_key(&missing));
        watches.want(BTreeSet::new(), Duration::ZERO);
        assert!(!watches.watcher.is_watched(&names[0]) && watches.waits.is_empty());
    }
}
