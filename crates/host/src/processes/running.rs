//! Whether a process still runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::id::Pid;

/// A process by its pidfd. The number of a process may be given to another one; a pidfd may not.
#[derive(Debug)]
pub struct Running(OwnedFd);

impl Running {
    /// The process with this number (pidfd_open(2), Linux 5.3). It may have ended, if its parent has not
    /// waited for it.
    pub fn new(pid: Pid) -> io::Result<Running> {
        Ok(Running(pidfd_open(pid.into(), PidfdFlags::empty())?))
    }

    /// Kills the process if it does not end within `limit`. Returns whether it was killed.
    pub(crate) fn end_within(&self, limit: Duration) -> io::Result<bool> {
        // A process that has just ended met the limit.
        Ok(!self.ends_within(limit)? && pidfd_send_signal(&self.0, Signal::KILL).is_ok())
    }

    /// Whether it ends within `limit`, with all its threads, or has ended. Its parent may not have waited for it yet.
    pub fn ends_within(&self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now().checked_add(limit);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.map(Timespec::try_from).transpose();
            let left = left.map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsRawFd for Running {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_nobody_waited_for_has_ended() {
        let mut command = Command::new("cat");
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let running = Running::new(Pid::of_child(&child)).unwrap();
        assert!(!running.ends_within(Duration::ZERO).unwrap());
        drop(child.stdin.take());
        assert!(running.ends_within(Duration::from_secs(1000)).unwrap());
        assert!(running.ends_within(Duration::ZERO).unwrap());
        child.wait().unwrap();
        assert!(running.ends_within(Duration::ZERO).unwrap());
    }
}
