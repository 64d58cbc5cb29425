//! Watches the directories of files, so that an upgrade is noticed. The kernel looks a directory up to watch it.
//! That may take forever where a user has put another filesystem in its place, so a thread asks for it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hugetext_host::{Change, Done, Watch, Watcher};

use crate::open::ensure_answers;
use crate::work_queue::{Job, WorkQueue};

/// A directory to watch.
#[derive(Debug, Clone)]
struct Directory(PathBuf);

impl Job for Directory {
    type Target = PathBuf;

    fn target(&self) -> PathBuf {
        self.0.clone()
    }
}

/// What has become of directories.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Their changes are told from now on. What changed before is not told, also while the kernel watched them already.
    pub(crate) begun: Vec<PathBuf>,
    /// They did not answer in time.
    pub(crate) given_up: Vec<PathBuf>,
}

/// The directories that are watched, and those that are about to be.
pub(crate) struct Watches {
    watcher: Watcher,
    work: WorkQueue<Directory, io::Result<Watch>>,
    wanted: BTreeSet<PathBuf>,
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
    pub(crate) fn new(limit: Duration, wake: Arc<dyn Fn() + Send + Sync>) -> io::Result<Watches> {
        let watcher = Watcher::new()?;
        let asker = watcher.asker();
        let ask = move |Directory(directory): Directory| {
            ensure_answers(&directory)?;
            asker.ask(&directory)
        };
        Ok(Watches {
            watcher,
            work: WorkQueue::new(usize::MAX, limit, wake, ask),
            wanted: BTreeSet::new(),
        })
    }

    /// Watches these directories, and no others. If they are others than before, each is looked up again: another
    /// directory may have taken its place.
    pub(crate) fn want(&mut self, wanted: BTreeSet<PathBuf>, now: Duration) {
        let is_new = wanted != self.wanted;
        self.wanted = wanted;
        self.watcher.keep(|path| self.wanted.contains(path));
        self.work.retain(|path| self.wanted.contains(path));
        let due = self.wanted.iter();
        let due = due.filter(|path| !self.work.is_delayed(path, now));
        let due = due.filter(|path| is_new || !self.watcher.is_watched(path));
        let due: Vec<Directory> = due.cloned().map(Directory).collect();
        self.work.replace(due);
        self.work.begin(|_| true);
    }

    /// Takes in what has ended, and begins the next.
    pub(crate) fn finish(&mut self, now: Duration) -> Asked {
        let mut asked = Asked::default();
        while let Some((Directory(directory), done)) = self.work.finish() {
            match done {
                // One that is not wanted any more is dropped by the next `want`.
                Done::Result(Ok(watch)) => {
                    self.work.forget(&directory);
                    if self.watcher.add(watch, directory.clone()) {
                        asked.begun.push(directory);
                    }
                }
                Done::Result(Err(_)) => self.work.delay(directory, now),
                Done::GivenUp => {
                    asked.given_up.push(directory.clone());
                    self.work.delay(directory, now);
                }
            }
            self.work.begin(|_| true);
        }
        asked
    }

    /// Directories that were given up and have not been answered since.
    pub(crate) fn lost(&self) -> usize {
        self.work.lost()
    }

    /// What has changed, without waiting.
    pub(crate) fn changes(&mut self) -> io::Result<Vec<Change>> {
        self.watcher.wait(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Ends all that was begun.
    fn settle(watches: &mut Watches) {
        while watches.work.running().is_some() || watches.work.waiting().len() > 0 {
            assert!(watches.finish(Duration::ZERO).given_up.is_empty());
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
        assert!(watches.work.is_delayed(&missing, Duration::ZERO));
        watches.want(BTreeSet::new(), Duration::ZERO);
        assert!(!watches.watcher.is_watched(&names[0]));
        assert!(!watches.work.is_delayed(&missing, Duration::ZERO));
    }

    /// The kernel watches a directory before this process has heard of it, and what it tells until then is of nobody.
    #[test]
    fn it_is_said_from_when_on_changes_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let mut watches = Watches::new(Duration::from_secs(60), Arc::new(|| {})).unwrap();
        let one = directory.path().to_owned();
        let wanted = BTreeSet::from([one.clone()]);
        watches.want(wanted.clone(), Duration::ZERO);
        let about = format!("/proc/self/fdinfo/{}", watches.as_fd().as_raw_fd());
        let is_watched = || std::fs::read_to_string(&about).unwrap();
        while !is_watched().contains("inotify wd:") {}
        std::fs::write(one.join("program"), "").unwrap();
        assert_eq!(watches.changes().unwrap(), []);
        let begun = loop {
            let asked = watches.finish(Duration::ZERO);
            if !asked.begun.is_empty() {
                break asked.begun;
            }
        };
        assert_eq!(begun, [one]);
        watches.want(wanted, Duration::ZERO);
        settle(&mut watches);
        assert!(watches.finish(Duration::ZERO).begun.is_empty());
    }
}
