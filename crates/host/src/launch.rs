//! Running a command and taking its figures from the kernel.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde::Serialize;

/// What a finished command used, its waited-for children included (getrusage(2)).
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    /// From before fork to after wait.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Largest resident set, bytes.
    pub max_rss: u64,
}

/// Runs `command` to its end.
pub fn run_measured(command: &mut Command) -> io::Result<(Usage, ExitStatus)> {
    let start = Instant::now();
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut status = 0;
    // SAFETY: rusage is a plain C struct for which all-zero bytes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; the child was spawned above and nobody else
    // waits for it, since `child` is only dropped, which does not wait.
    while unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let wall = start.elapsed();
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs())
            + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    let usage = Usage {
        wall,
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        minor_faults: usage.ru_minflt.unsigned_abs(),
        major_faults: usage.ru_majflt.unsigned_abs(),
        max_rss: usage.ru_maxrss.unsigned_abs() << 10,
    };
    Ok((usage, ExitStatus::from_raw(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_status_and_faults() {
        let (usage, status) = run_measured(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(usage.minor_faults > 0);
        assert!(run_measured(&mut Command::new("/nonexistent/program")).is_err());
    }
}
