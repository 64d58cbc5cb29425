//! What the kernel says of a process or a thread: /proc/PID/status.

use std::ffi::c_int;
use std::fs;

use hugetext_host::Tid;

use crate::refusal::Refusal;

/// The lines of /proc/PID/status or /proc/PID/task/TID/status.
pub(crate) struct Status(String);

impl Status {
    pub(crate) fn read(path: &str) -> Result<Status, Refusal> {
        // The name of the process may hold any byte.
        let text = fs::read(path).map_err(Refusal::from)?;
        Ok(Status(String::from_utf8_lossy(&text).into_owned()))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    pub(crate) fn number(&self, name: &str) -> Option<c_int> {
        self.field(name)?.parse().ok()
    }

    /// The letter of its state: R, S, D, T, t, Z, X, I.
    pub(crate) fn state(&self) -> Option<char> {
        self.field("State")?.chars().next()
    }

    /// The thread that traces it.
    pub(crate) fn tracer(&self) -> Option<Tid> {
        self.field("TracerPid")?.parse().ok()
    }

    /// The signals that it blocks now, one bit each. In a call with a mask of its own, such as
    /// epoll_pwait(2), that is the mask of the call.
    #[cfg_attr(
        not(target_arch = "aarch64"),
        allow(dead_code, reason = "see waiting.rs")
    )]
    pub(crate) fn blocked(&self) -> Option<u64> {
        u64::from_str_radix(self.field("SigBlk")?, 16).ok()
    }

    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.state(), Some('Z' | 'X'))
    }
}
