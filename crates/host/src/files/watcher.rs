//! Waits for files to be replaced, added or removed (inotify(7)).

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Watches directories. A file is watched through its directory, since a replaced file has another
/// inode.
#[derive(Debug)]
pub struct Watcher {
    inotify: Arc<OwnedFd>,
    /// The paths of each watch: symbolic links may give one directory several paths.
    directories: HashMap<i32, BTreeSet<PathBuf>>,
}

/// A directory that the kernel watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch(i32);

/// Asks the kernel to watch directories. That may take long, and may be done in another thread.
#[derive(Debug, Clone)]
pub struct WatchAsker(Arc<OwnedFd>);

impl WatchAsker {
    /// Watches a directory. [`Watcher::add`] takes the watch; until then its changes are not told.
    pub fn ask(&self, directory: &Path) -> io::Result<Watch> {
        let flags = CHANGES | WatchFlags::ONLYDIR;
        Ok(Watch(inotify::add_watch(&*self.0, directory, flags)?))
    }
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A name in a watched directory may refer to other content.
    Name {
        /// The directory, as the caller named it.
        directory: PathBuf,
        /// The name in the directory.
        name: OsString,
    },
    /// A watched directory is gone, or changes were not reported: anything may have changed.
    Unknown,
}

/// The events after which a name may refer to other content.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

impl Watcher {
    /// A watcher of no directory yet.
    pub fn new() -> io::Result<Watcher> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Watcher {
            inotify: Arc::new(inotify),
            directories: HashMap::new(),
        })
    }

    /// What asks for further watches of this watcher.
    pub fn asker(&self) -> WatchAsker {
        WatchAsker(Arc::clone(&self.inotify))
    }

    /// Tells the changes of this directory from now on, and no more those of another one that was at its path. Returns
    /// whether they were not told before, so that anything may have changed by now.
    pub fn add(&mut self, watch: Watch, directory: PathBuf) -> bool {
        let entry = self.directories.entry(watch.0).or_default();
        let is_new = entry.insert(directory.clone());
        if is_new {
            self.retain(|other, path| other == watch || path != directory);
        }
        is_new
    }

    /// Whether a directory is watched.
    pub fn is_watched(&self, directory: &Path) -> bool {
        let mut all = self.directories.values();
        all.any(|paths| paths.contains(directory))
    }

    /// Watches none but these directories from now on.
    pub fn keep(&mut self, is_wanted: impl Fn(&Path) -> bool) {
        self.retain(|_, path| is_wanted(path));
    }

    fn retain(&mut self, stays: impl Fn(Watch, &Path) -> bool) {
        let inotify = &self.inotify;
        self.directories.retain(|watch, paths| {
            paths.retain(|path| stays(Watch(*watch), path));
            if paths.is_empty() {
                // The kernel itself removes the watch of a removed directory.
                let _ = inotify::remove_watch(&**inotify, *watch);
            }
            !paths.is_empty()
        });
    }

    /// Watches these directories, and no others from now on. Returns how many of them could not be
    /// watched, because they are missing or the user's limit of watches is reached.
    pub fn watch<'p>(&mut self, directories: impl Iterator<Item = &'p Path>) -> usize {
        let asker = self.asker();
        let mut told = BTreeSet::new();
        let mut missed = 0;
        for directory in directories {
            match asker.ask(directory) {
                Ok(watch) => {
                    self.add(watch, directory.to_owned());
                    told.insert(directory.to_owned());
                }
                Err(_) => missed += 1,
            }
        }
        self.keep(|path| told.contains(path));
        missed
    }

    /// The changes, in no particular order. Waits for the first change up to `timeout`, and returns
    /// none if none came.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Vec<Change>> {
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut ready = [PollFd::new(&*self.inotify, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            other => other?,
        };
        let mut buffer = [MaybeUninit::uninit(); 1 << 14];
        let mut reader = Reader::new(&*self.inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::AGAIN) => return Ok(changes),
                Err(error) => return Err(error.into()),
            };
            // The directory is no longer watched: this is the kernel's last event for it.
            let Some(paths) = self.directories.get(&event.wd()) else {
                if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    changes.push(Change::Unknown);
                }
                continue;
            };
            match event.file_name() {
                None if event.events().contains(ReadFlags::IGNORED) => {
                    self.directories.remove(&event.wd());
                    changes.push(Change::Unknown);
                }
                Some(name) => changes.extend(paths.iter().map(|directory| Change::Name {
                    directory: directory.clone(),
                    name: OsString::from_vec(name.to_bytes().to_vec()),
                })),
                None => changes.push(Change::Unknown),
            }
        }
    }
}

impl AsFd for Watcher {
    /// Ready when there are changes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn tells_of_files_put_into_place() {
        let directory = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::new().unwrap();
        let both = [directory.path(), Path::new("/no/such/directory")];
        assert_eq!(watcher.watch(both.into_iter()), 1);
        assert!(watcher.wait(Duration::ZERO).unwrap().is_empty());
        let new = directory.path().join("new");
        std::fs::write(&new, "x").unwrap();
        std::fs::rename(new, directory.path().join("program")).unwrap();
        assert!(watcher.wait(LONG).unwrap().contains(&Change::Name {
            directory: directory.path().to_owned(),
            name: OsString::from("program"),
        }));
    }

    #[test]
    fn a_directory_that_goes_is_told_and_one_no_longer_watched_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        for path in [&one, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let mut watcher = Watcher::new().unwrap();
        watcher.watch([one.as_path(), &other].into_iter());
        watcher.watch([one.as_path()].into_iter());
        std::fs::write(other.join("new"), "x").unwrap();
        std::fs::remove_dir_all(&other).unwrap();
        assert_eq!(watcher.wait(Duration::ZERO).unwrap(), []);
        std::fs::remove_dir(&one).unwrap();
        assert!(watcher.wait(LONG).unwrap().contains(&Change::Unknown));
    }

    #[test]
    fn a_watch_that_another_thread_asked_for_is_told_until_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let one = directory.path().join("one");
        std::fs::create_dir(&one).unwrap();
        let mut watcher = Watcher::new().unwrap();
        let (asker, path) = (watcher.asker(), one.clone());
        let watch = std::thread::spawn(move || asker.ask(&path).unwrap());
        watcher.add(watch.join().unwrap(), one.clone());
        watcher.keep(|path| path == one);
        assert!(watcher.is_watched(&one));
        std::fs::remove_dir(&one).unwrap();
        while watcher.is_watched(&one) {
            assert!(watcher.wait(LONG).unwrap().contains(&Change::Unknown));
        }
        std::fs::create_dir(&one).unwrap();
        watcher.add(watcher.asker().ask(&one).unwrap(), one.clone());
        // Another directory in its place is watched instead of it.
        std::fs::rename(&one, directory.path().join("other")).unwrap();
        std::fs::create_dir(&one).unwrap();
        watcher.add(watcher.asker().ask(&one).unwrap(), one.clone());
        assert_eq!(watcher.directories.len(), 1);
        watcher.keep(|_| false);
        assert!(!watcher.is_watched(&one));
    }
}
