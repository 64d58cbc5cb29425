//! Watches which programs a command executes: by the kernel's reports about the whole machine if
//! they are permitted, otherwise by ptrace, which the command may notice.

use std::collections::{HashMap, HashSet};
use std::io;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, pidfd_open};
use schemars::JsonSchema;
use serde::Serialize;

use super::machine::{Start, Starts};
use super::moment::{Interest, Moment};
use super::trace::trace;
use crate::processes::{Forward, Pid};

/// The method by which a command was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// By reports of the kernel; the command does not notice.
    Reports,
    /// By ptrace: set-id programs do not change the user unless root watches, and no other process
    /// can trace.
    Ptrace,
}

/// The result of watching a command to its end.
#[derive(Debug)]
pub struct Watched {
    /// How it ended.
    pub status: ExitStatus,
    /// The method.
    pub way: Way,
    /// How many reports were lost or named no program: at least this many executions are missing.
    pub lost: u64,
}

/// How long a process runs before its mappings are inspected. By then it has opened most of its
/// libraries, and processes that end earlier do not matter.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Runs `command` and tells `seen` what it and its descendants execute. Returns when the command
/// itself has ended; descendants that live on are no longer watched.
///
/// Terminal signals are left to the command: this process ignores them from now on. SIGTERM and
/// SIGHUP are passed to the command while it runs.
pub fn watch(
    command: &mut Command,
    way: Option<Way>,
    seen: impl FnMut(Moment) -> Interest,
) -> io::Result<Watched> {
    let starts = match way {
        Some(Way::Ptrace) => None,
        Some(Way::Reports) => Some(Starts::new()?),
        None => Starts::new().ok(),
    };
    match starts {
        Some(starts) => Family::watch(starts, command, seen),
        None => Ok(Watched {
            status: trace(command, seen)?,
            way: Way::Ptrace,
            lost: 0,
        }),
    }
}

/// A command and its descendants.
struct Family<S> {
    processes: HashSet<Pid>,
    /// The processes to inspect, with the time at which each executed its program.
    looks: HashMap<Pid, Instant>,
    lost: u64,
    seen: S,
}

impl<S: FnMut(Moment) -> Interest> Family<S> {
    fn watch(mut starts: Starts, command: &mut Command, seen: S) -> io::Result<Watched> {
        let (mut child, _forward) = Forward::spawn(command)?;
        let pid = Pid::of_child(&child);
        let end = pidfd_open(pid.into(), PidfdFlags::empty())?;
        let mut family = Family {
            processes: HashSet::from([pid]),
            looks: HashMap::new(),
            lost: 0,
            seen,
        };
        loop {
            // The reports read after its end are the last ones.
            let status = child.try_wait()?;
            for start in starts.wait(LOOK_AFTER, &end)? {
                family.note(start);
            }
            family.look(Instant::now());
            if let Some(status) = status {
                return Ok(Watched {
                    status,
                    way: Way::Reports,
                    lost: family.lost,
                });
            }
        }
    }

    fn note(&mut self, start: Start) {
        match start {
            Start::Fork { parent, child } => {
                if self.processes.contains(&parent) {
                    self.processes.insert(child);
                }
            }
            Start::Exec { pid, program } if self.processes.contains(&pid) => {
                self.looks.remove(&pid);
                let Some(program) = program else {
                    self.lost = self.lost.saturating_add(1);
                    return;
                };
                if (self.seen)(Moment::Exec { pid, program }) == Interest::Mappings {
                    self.looks.insert(pid, Instant::now());
                }
            }
            Start::Exec { .. } => {}
            Start::Exit { pid } => {
                self.processes.remove(&pid);
                self.looks.remove(&pid);
            }
            Start::Lost => self.lost = self.lost.saturating_add(1),
        }
    }

    fn look(&mut self, now: Instant) {
        let due = |since: &Instant| now.saturating_duration_since(*since) >= LOOK_AFTER;
        let pids = self.looks.iter().filter(|(_, since)| due(since));
        for pid in pids.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.looks.remove(&pid);
            (self.seen)(Moment::Look { pid });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_descendants_and_of_nobody_else() {
        // Another command runs at the same time and must not be reported.
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut programs = Vec::new();
        let script = "for i in 1 2 3 4 5 6 7 8 9; do env true; done; (env false); exit 3";
        let watched = watch(
            Command::new("sh").args(["-c", script]),
            Some(Way::Reports),
            |moment| {
                if let Moment::Exec { program, .. } = moment {
                    let name = program.file_name().unwrap_or_default();
                    programs.push(name.to_string_lossy().into_owned());
                }
                Interest::Nothing
            },
        );
        other.kill().unwrap();
        other.wait().unwrap();
        let watched = match watched {
            Err(error) => return println!("skipped: no reports for this user here: {error}"),
            Ok(watched) => watched,
        };
        assert_eq!(watched.status.code(), Some(3));
        if watched.lost > 0 {
            return println!("skipped: other starts of this machine filled the buffer");
        }
        let count = |name: &str| programs.iter().filter(|program| *program == name).count();
        assert_eq!((count("env"), count("sleep")), (10, 0), "{programs:?}");
        assert_eq!((count("true"), count("false")), (9, 1), "{programs:?}");
    }
}
