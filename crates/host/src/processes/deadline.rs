//! A time limit for a child process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::id::Pid;

/// A child of this process that has not been waited for yet.
#[derive(Debug)]
pub(crate) struct Running(OwnedFd);

impl Running {
    /// The child with this process id (pidfd_open(2), Linux 5.3).
    pub(crate) fn child(pid: Pid) -> io::Result<Running> {
        Ok(Running(pidfd_open(pid.into(), PidfdFlags::empty())?))
    }

    /// Kills the child if it does not end within `limit`. Returns whether it was killed.
    pub(crate) fn end_within(&self, limit: Duration) -> io::Result<bool> {
        // A child that has just ended met the limit.
        Ok(!self.ends_within(limit)? && pidfd_send_signal(&self.0, Signal::KILL).is_ok())
    }

    fn ends_within(&self, limit: Duration) -> io::Result<bool> {
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

/// Kills a child when its time is up, while another thread waits for the child.
#[derive(Debug)]
pub struct Deadline(JoinHandle<bool>);

impl Deadline {
    /// Gives the child with this process id `limit` from now. The child must not have been waited
    /// for yet.
    pub fn new(pid: Pid, limit: Duration) -> io::Result<Deadline> {
        let child = Running::child(pid)?;
        let watch = move || child.end_within(limit).unwrap_or(false);
        Ok(Deadline(thread::spawn(watch)))
    }

    /// Call it after the child has ended: returns whether the child was killed for its time.
    pub fn missed(self) -> bool {
        self.0.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let deadline = Deadline::new(Pid::of_child(&child), Duration::ZERO).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(deadline.missed());
    }

    #[test]
    fn a_child_that_ends_is_not() {
        let mut child = Command::new("true").spawn().unwrap();
        let deadline = Deadline::new(Pid::of_child(&child), Duration::from_secs(1000)).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!deadline.missed());
    }
}
