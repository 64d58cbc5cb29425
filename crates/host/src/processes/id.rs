//! The numbers of processes and threads.

use std::cmp::Ordering;
use std::fmt;
use std::process::Child;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The largest number that a process or thread can have: PID_MAX_LIMIT (include/linux/threads.h).
const MOST: i32 = 1 << 22;

/// Why a number or a text is not that of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPid {
    /// Not a whole number.
    #[error("not a number; 'ps -e' shows the numbers of processes")]
    NoNumber,
    /// Zero or less.
    #[error("processes are numbered from 1 on")]
    TooSmall,
    /// More than Linux gives.
    #[error("no process has a number above {MOST}")]
    TooLarge,
}

/// The number of a process: positive, and not more than Linux can give. It says nothing about whether
/// such a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Pid(rustix::process::Pid);

/// The number of a thread. That of the first thread of a process is the number of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(Pid);

impl Pid {
    /// This process.
    pub fn own() -> Pid {
        Pid(rustix::process::getpid())
    }

    /// The process that started this one, or adopted it; `None` if it is in another pid namespace.
    pub fn parent() -> Option<Pid> {
        rustix::process::getppid().map(Pid)
    }

    /// A child, which has not been waited for.
    pub fn of_child(child: &Child) -> Pid {
        Pid(rustix::process::Pid::from_child(child))
    }

    /// The process of a number that the kernel has reported. The kernel reports 0 for a process of
    /// another pid namespace.
    pub fn from_raw(number: i32) -> Option<Pid> {
        Pid::try_from(number).ok()
    }

    /// The number, for a system call or a record.
    pub fn as_raw(self) -> i32 {
        self.0.as_raw_pid()
    }

    /// Its first thread.
    pub fn first_thread(self) -> Tid {
        Tid(self)
    }
}

impl Ord for Pid {
    fn cmp(&self, other: &Pid) -> Ordering {
        self.as_raw().cmp(&other.as_raw())
    }
}

impl PartialOrd for Pid {
    fn partial_cmp(&self, other: &Pid) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TryFrom<i32> for Pid {
    type Error = NoPid;

    fn try_from(number: i32) -> Result<Pid, NoPid> {
        match number {
            ..=0 => Err(NoPid::TooSmall),
            1..=MOST => rustix::process::Pid::from_raw(number)
                .map(Pid)
                .ok_or(NoPid::TooSmall),
            _ => Err(NoPid::TooLarge),
        }
    }
}

impl FromStr for Pid {
    type Err = NoPid;

    fn from_str(text: &str) -> Result<Pid, NoPid> {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};

        match text.parse::<i32>() {
            Ok(number) => Pid::try_from(number),
            Err(error) => Err(match error.kind() {
                PosOverflow => NoPid::TooLarge,
                NegOverflow => NoPid::TooSmall,
                _ => NoPid::NoNumber,
            }),
        }
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_raw(), f)
    }
}

impl From<Pid> for i32 {
    fn from(pid: Pid) -> i32 {
        pid.as_raw()
    }
}

impl From<Pid> for rustix::process::Pid {
    fn from(pid: Pid) -> rustix::process::Pid {
        pid.0
    }
}

impl From<Pid> for nix::unistd::Pid {
    fn from(pid: Pid) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(pid.as_raw())
    }
}

impl JsonSchema for Pid {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": MOST })
    }
}

impl Tid {
    /// The calling thread.
    pub fn own() -> Tid {
        Tid(Pid(rustix::thread::gettid()))
    }

    /// The thread of a number that the kernel has reported.
    pub fn from_raw(number: i32) -> Option<Tid> {
        Pid::from_raw(number).map(Pid::first_thread)
    }

    /// The number, for a system call.
    pub fn as_raw(self) -> i32 {
        self.0.as_raw()
    }

    /// The process whose first thread this is, which the caller must know.
    pub fn as_process(self) -> Pid {
        self.0
    }
}

impl FromStr for Tid {
    type Err = NoPid;

    fn from_str(text: &str) -> Result<Tid, NoPid> {
        text.parse().map(Pid::first_thread)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<Tid> for rustix::process::Pid {
    fn from(tid: Tid) -> rustix::process::Pid {
        tid.0.0
    }
}

impl From<Tid> for nix::unistd::Pid {
    fn from(tid: Tid) -> nix::unistd::Pid {
        tid.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_process_can_have_is_refused_with_the_reason() {
        let parse = |text: &str| text.parse::<Pid>();
        assert_eq!(parse("0"), Err(NoPid::TooSmall));
        assert_eq!(parse("-1"), Err(NoPid::TooSmall));
        assert_eq!(parse("-99999999999"), Err(NoPid::TooSmall));
        assert_eq!(parse("4194305"), Err(NoPid::TooLarge));
        assert_eq!(parse("99999999999"), Err(NoPid::TooLarge));
        assert_eq!(parse(""), Err(NoPid::NoNumber));
        assert_eq!(parse("self"), Err(NoPid::NoNumber));
        assert_eq!(parse("4194304").map(Pid::as_raw), Ok(4_194_304));
    }

    #[test]
    fn in_json_it_is_its_number() {
        let own = Pid::own();
        let json = serde_json::to_string(&own).unwrap();
        assert_eq!(json, std::process::id().to_string());
        assert_eq!(serde_json::from_str::<Pid>(&json).unwrap(), own);
        assert!(serde_json::from_str::<Pid>("0").is_err());
    }
}
