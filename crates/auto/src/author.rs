//! Whether the daemon that wrote a document still runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use hugetext_host::Pid;
use rustix::io::Errno;
use rustix::process::test_kill_process;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::processor::ProcessTicks;

/// A process, so that no other one with its number is taken for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Author {
    /// When it started, in ticks since the boot; 0 if that is not known.
    #[serde(default)]
    pub started: u64,
    /// The namespace of its process number.
    #[serde(default)]
    pub pid_namespace: u64,
}

impl Author {
    /// This process.
    pub(crate) fn this() -> Author {
        Author {
            started: ProcessTicks::of(Pid::own()).map_or(0, |ticks| ticks.started),
            pid_namespace: pid_namespace(),
        }
    }

    /// What became of process `pid`, which wrote something `age` ago and would write again within `silence`, as far as
    /// this process may see it.
    pub(crate) fn state(self, pid: Pid, age: Duration, silence: Duration) -> DaemonState {
        let here = self.pid_namespace == pid_namespace();
        judged(age > silence, here && is_gone(pid, self))
    }
}

fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// What became of the daemon that wrote a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaemonState {
    /// It runs.
    Runs,
    /// It has written nothing for longer than it waits between two documents: it is stopped or hangs.
    Silent,
    /// It has ended without removing the document: it was killed.
    Ended,
}

fn judged(is_silent: bool, is_gone: bool) -> DaemonState {
    match is_silent {
        _ if is_gone => DaemonState::Ended,
        true => DaemonState::Silent,
        false => DaemonState::Runs,
    }
}

fn is_gone(pid: Pid, author: Author) -> bool {
    if test_kill_process(pid.into()) == Err(Errno::SRCH) {
        return true;
    }
    // /proc may hide the processes of others.
    let stat = fs::exists(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|seen| seen)
        && author.started != 0
        && ProcessTicks::of(pid).is_none_or(|now| now.started != author.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_runs_is_silent_or_has_ended() {
        let own = Author::this();
        let state = |age: u64| {
            own.state(
                Pid::own(),
                Duration::from_secs(age),
                Duration::from_secs(30),
            )
        };
        assert_eq!(state(10), DaemonState::Runs);
        assert_eq!(state(40), DaemonState::Silent);
        assert_eq!(judged(false, true), DaemonState::Ended);
    }

    #[test]
    fn a_number_that_was_given_again_is_another_process() {
        let own = Author::this();
        assert!(!is_gone(Pid::own(), own));
        let earlier = Author {
            started: own.started + 1,
            ..own
        };
        assert!(is_gone(Pid::own(), earlier));
        // The limit itself is never given.
        assert!(is_gone(Pid::from_raw(1 << 22).unwrap(), own));
    }
}
