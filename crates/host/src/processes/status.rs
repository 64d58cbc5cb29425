//! What the kernel says of a process or a thread: /proc/PID/status.

use std::fs;
use std::io;
use std::str::FromStr;

use super::id::{Pid, Tid};

/// The lines of /proc/PID/status or /proc/PID/task/TID/status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStatus(String);

impl ProcessStatus {
    /// That of this process.
    pub fn own() -> io::Result<ProcessStatus> {
        ProcessStatus::read("/proc/self/status")
    }

    /// That of a process.
    pub fn of(pid: Pid) -> io::Result<ProcessStatus> {
        ProcessStatus::read(&format!("/proc/{pid}/status"))
    }

    /// That of a thread, of whichever process.
    pub fn of_thread(tid: Tid) -> io::Result<ProcessStatus> {
        ProcessStatus::read(&format!("/proc/{tid}/status"))
    }

    /// That of a thread, if it is one of this process.
    pub fn of_thread_in(pid: Pid, tid: Tid) -> io::Result<ProcessStatus> {
        ProcessStatus::read(&format!("/proc/{pid}/task/{tid}/status"))
    }

    fn read(path: &str) -> io::Result<ProcessStatus> {
        // The name of the process may hold any byte.
        let text = fs::read(path)?;
        Ok(ProcessStatus(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The lines of a text, for tests.
    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> ProcessStatus {
        ProcessStatus(text.to_owned())
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    /// The first word of a field, such as the real user of Uid, as a value.
    pub fn first<V: FromStr>(&self, name: &str) -> Option<V> {
        self.field(name)?.split_whitespace().next()?.parse().ok()
    }

    /// Bytes of memory, of a field in kB.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.first::<u64>(name)?.checked_mul(1 << 10)
    }

    /// A set of signals, one bit each.
    pub fn signals(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }

    /// The letter of its state: R, S, D, T, t, Z, X, I.
    pub fn state(&self) -> Option<char> {
        self.field("State")?.chars().next()
    }

    /// The thread that traces it.
    pub fn tracer(&self) -> Option<Tid> {
        self.first("TracerPid")
    }

    /// The signals that it blocks now. In a call with a mask of its own, such as epoll_pwait(2), that is the mask of
    /// the call.
    pub fn blocked(&self) -> Option<u64> {
        self.signals("SigBlk")
    }

    /// Whether it has ended, or is about to.
    pub fn is_ending(&self) -> bool {
        matches!(self.state(), Some('Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart_by_their_whole_names() {
        let text = "Name:\tUid: 7\nState:\tZ (zombie)\nTgid:\t5\nTracerPid:\t0\nUid:\t1000\t0\t0\t0\n\
                    RssAnon:\t    2048 kB\nSigBlk:\t0000000000010002\n";
        let status = ProcessStatus::from_text(text);
        assert_eq!(status.first("Uid"), Some(1000));
        assert_eq!(status.first::<u32>("Ui"), None);
        assert_eq!(status.bytes("RssAnon"), Some(2 << 20));
        assert_eq!(status.blocked(), Some(0x1_0002));
        assert_eq!(status.tracer(), None);
        assert!(status.is_ending());
    }

    #[test]
    fn this_process_is_one_thread_of_itself() {
        let own = ProcessStatus::own().unwrap();
        assert_eq!(own.first("Tgid"), Some(Pid::own()));
        let thread = ProcessStatus::of_thread_in(Pid::own(), Pid::own().first_thread()).unwrap();
        assert_eq!(thread.field("Tgid"), own.field("Tgid"));
    }
}
