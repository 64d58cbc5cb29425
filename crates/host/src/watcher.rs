//! Waiting for files to be replaced, added or removed (inotify(7)).

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Watches directories. Files are watched through their directories, since a replaced file is
/// another file.
#[derive(Debug)]
pub struct Watcher(OwnedFd);

/// What makes a name stand for other bytes.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CREATE);

impl Watcher {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Watcher> {
        Ok(Watcher(inotify::init(
            CreateFlags::CLOEXEC | CreateFlags::NONBLOCK,
        )?))
    }

    /// Watches a directory; one that is watched already is not watched twice.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let flags = CHANGES | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.0, directory, flags)?;
        Ok(())
    }

    /// The names of files that changed, in no particular order; waits for the first for as long as
    /// `timeout` says, for ever without one. An empty name means that some went unreported.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<OsString>> {
        let timeout = timeout.map(Timespec::try_from).transpose();
        let timeout = timeout.map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            other => other?,
        };
        let mut buffer = [MaybeUninit::uninit(); 1 << 14];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
                    names.push(OsString::from_vec(name.to_vec()));
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(names),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_of_files_put_into_place() {
        let directory = tempfile::tempdir().unwrap();
        let watcher = Watcher::new().unwrap();
        watcher.add(directory.path()).unwrap();
        assert!(watcher.wait(Some(Duration::ZERO)).unwrap().is_empty());
        let new = directory.path().join("new");
        std::fs::write(&new, "x").unwrap();
        std::fs::rename(new, directory.path().join("program")).unwrap();
        let names = watcher.wait(Some(Duration::from_secs(10))).unwrap();
        assert!(names.contains(&OsString::from("program")));
        assert!(watcher.add(Path::new("/no/such/directory")).is_err());
    }
}
