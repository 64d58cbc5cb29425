//! Locks that go with the process that holds them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often to ask for a lock that another holds.
const NAP: Duration = Duration::from_millis(5);

/// Locks the file at `path` (flock(2)), which is made if need be, for its owner alone to open: whoever
/// can open it could keep it locked. Waits for another holder, but not for ever, since that one may be
/// stopped or hang: after `patience` the error is [`io::ErrorKind::WouldBlock`]. Ends when the file
/// is dropped or the process dies.
pub fn lock(path: &Path, patience: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(path)?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => std::thread::sleep(NAP),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
