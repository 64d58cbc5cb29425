//! Locks that are released when the process that holds them ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::{Errno, retry_on_intr};

/// Time between two attempts at a lock that another process holds.
const NAP: Duration = Duration::from_millis(5);

/// Locks the file at `path` (flock(2)), which is created if missing. Only its owner can open it,
/// since any process that can open it could keep it locked. Waits for another holder, but not
/// forever, since that process may be stopped or hang: after `patience` the error is
/// [`io::ErrorKind::WouldBlock`]. The lock ends when the file is dropped or the process dies.
pub fn lock(path: &Path, patience: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(path)?;
    lock_file(&file, patience)?;
    Ok(file)
}

/// As [`lock`], of an open file.
pub(crate) fn lock_file(file: impl AsFd, patience: Duration) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => std::thread::sleep(NAP),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens the file `name` of a directory, to be locked (flock(2)); it is created if missing. Its owner alone can open it.
/// Everybody can open the directory, and so keep the directory itself locked.
pub fn open_lock(directory: impl AsFd, name: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(directory, name.as_ref(), flags, Mode::RUSR | Mode::WUSR)
}

/// Shares a lock on a directory with whoever else does (flock(2)). It ends when the file is dropped or the process
/// dies. Waits for [`is_shared`] in another process, which takes an instant. As with [`lock`], only the owner should
/// be able to open the directory.
pub fn share(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    retry_on_intr(|| flock(&file, FlockOperation::LockShared))?;
    Ok(file)
}

/// Whether a process shares a lock on a directory, by [`share`].
pub fn is_shared(directory: &Path) -> io::Result<bool> {
    match flock(
        File::open(directory)?,
        FlockOperation::NonBlockingLockExclusive,
    ) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
