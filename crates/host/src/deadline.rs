//! A bound on how long a child may run.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills a child when its time is up.
#[derive(Debug)]
pub struct Deadline {
    met: Sender<()>,
    watch: JoinHandle<bool>,
}

impl Deadline {
    /// Gives the child with this process id `limit` from now. The child must not have been waited
    /// for yet.
    pub fn new(pid: u32, limit: Duration) -> io::Result<Deadline> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let child = pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
        let (met, wait) = mpsc::channel();
        let watch = thread::spawn(move || {
            let late = wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            // Fails if the child has ended just now: then it was in time.
            late && pidfd_send_signal(&child, Signal::KILL).is_ok()
        });
        Ok(Deadline { met, watch })
    }

    /// Ends the watch once the child was waited for: whether it was killed for its time.
    pub fn missed(self) -> bool {
        drop(self.met);
        self.watch.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let deadline = Deadline::new(child.id(), Duration::ZERO).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(deadline.missed());
    }

    #[test]
    fn a_child_that_ends_is_not() {
        let mut child = Command::new("true").spawn().unwrap();
        let deadline = Deadline::new(child.id(), Duration::from_secs(1000)).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!deadline.missed());
    }
}
