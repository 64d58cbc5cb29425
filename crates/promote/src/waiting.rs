//! The system call in which a thread waits: /proc/PID/syscall.

use std::fs;

use hugetext_host::{ProcessStatus, Tid};

/// The system call in which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingCall {
    /// Its number.
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
    /// The address of the instruction after it.
    pub(crate) pc: u64,
    /// The signals that the thread blocks while it waits, if the call has a mask of its own.
    mask: Option<u64>,
}

impl WaitingCall {
    /// `None` if the thread waits in no call, or where the kernel does not say
    /// (CONFIG_HAVE_ARCH_TRACEHOOK).
    pub(crate) fn read(tid: Tid) -> Option<WaitingCall> {
        WaitingCall::parse(&fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?)
    }

    /// The call, if it has a mask of its own, with that mask.
    pub(crate) fn with_mask(self, tid: Tid) -> Option<WaitingCall> {
        let mask = Some(blocked_signals(tid)?);
        Some(WaitingCall { mask, ..self })
    }

    /// Whether the call's own mask is still in force. A handler that has run ends it.
    pub(crate) fn mask_stands(&self, tid: Tid) -> bool {
        self.mask.is_none() || self.mask == blocked_signals(tid)
    }

    /// The line is "running", or the number, six arguments, the stack pointer and the program
    /// counter. The number is -1 and has no arguments outside of a call (fs/proc/base.c,
    /// proc_pid_syscall()).
    fn parse(line: &str) -> Option<WaitingCall> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [number, arguments @ .., _, pc] = &words[..] else {
            return None;
        };
        let address = |word: &&str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let arguments: Option<Vec<u64>> = arguments.iter().map(address).collect();
        Some(WaitingCall {
            number: number.parse().ok()?,
            arguments: arguments?.try_into().ok()?,
            pc: address(pc)?,
            mask: None,
        })
    }
}

/// The signals that a thread blocks now.
fn blocked_signals(tid: Tid) -> Option<u64> {
    ProcessStatus::of_thread(tid).ok()?.blocked()
}

#[cfg(test)]
mod tests {
    use super::WaitingCall;

    #[test]
    fn the_line_of_a_waiting_thread_is_read() {
        let line = "0 0x3 0x5591 0x400 0x0 0x0 0x0 0x7ffd12a0 0x7fa1c4d1\n";
        let call = WaitingCall {
            number: 0,
            arguments: [3, 0x5591, 0x400, 0, 0, 0],
            pc: 0x7fa1_c4d1,
            mask: None,
        };
        assert_eq!(WaitingCall::parse(line), Some(call));
    }

    #[test]
    fn other_lines_hold_no_call() {
        for line in [
            "running\n",
            "-1 0x7ffd12a0 0x7fa1c4d1\n",
            "",
            "0 3 0 0 0 0 0 0 0",
        ] {
            assert_eq!(WaitingCall::parse(line), None, "{line:?}");
        }
    }
}
