//! Runs a command and reads its resource usage from the kernel.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::id::Pid;
use super::running::Running;

/// The resource usage of a finished command, including its waited-for children (getrusage(2)).
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    /// Time from before fork until after wait.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Largest resident set, bytes.
    pub max_rss: u64,
}

/// Runs `command` to its end. If it still runs after `limit`, it is killed. The error is then
/// [`io::ErrorKind::TimedOut`].
pub fn run_measured(command: &mut Command, limit: Duration) -> io::Result<(Usage, ExitStatus)> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    let pid = Pid::of_child(&child);
    let late = Running::new(pid).and_then(|running| running.end_within(limit));
    if late.is_err() {
        let _ = child.kill();
    }
    let mut status = 0;
    // SAFETY: rusage is a plain C struct for which all-zero bytes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals. The child was spawned above. Nothing else waits
    // for it: `child` is only dropped, and that does not wait.
    while unsafe { libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let wall = start.elapsed();
    if late? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let usage = Usage {
        wall,
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        max_rss: count(usage.ru_maxrss) << 10,
    };
    Ok((usage, ExitStatus::from_raw(status)))
}

/// Processor time, user and system, that this process and its waited-for children have used so
/// far.
pub fn processor_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: rusage is a plain C struct for which all-zero bytes are a value.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is to a live local; with these two constants it cannot fail.
            unsafe { libc::getrusage(who, &raw mut usage) };
            duration(usage.ru_utime) + duration(usage.ru_stime)
        })
        .sum()
}

fn duration(value: libc::timeval) -> Duration {
    Duration::from_secs(count(value.tv_sec)) + Duration::from_micros(count(value.tv_usec))
}

/// A number of the kernel's, whose type depends on the architecture; never negative.
fn count(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn reports_status_and_faults() {
        let (usage, status) =
            run_measured(Command::new("sh").args(["-c", "exit 3"]), LONG).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(usage.minor_faults > 0);
        assert!(run_measured(&mut Command::new("/nonexistent/program"), LONG).is_err());
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let late = run_measured(Command::new("sleep").arg("1000"), Duration::ZERO);
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
