//! A time limit for a child process.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::id::Pid;
use super::running::Running;

/// Kills a child when its time is up, while another thread waits for the child.
#[derive(Debug)]
pub struct Deadline(JoinHandle<bool>);

impl Deadline {
    /// Gives the child with this process id `limit` from now. The child must not have been waited
    /// for yet.
    pub fn new(pid: Pid, limit: Duration) -> io::Result<Deadline> {
        let child = Running::new(pid)?;
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
