//! Processor time of other processes.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// PID_MAX_LIMIT (linux/threads.h). The C library makes the number of another clock of a larger one.
const MOST: i32 = 1 << 22;

/// The user and system time of all threads of process `pid`, also of those that have ended, to the
/// nanosecond (clock_getcpuclockid(3)). Any user may read it.
pub fn cpu_time(pid: i32) -> io::Result<Duration> {
    if !(1..=MOST).contains(&pid) {
        return Err(Errno::ESRCH.into());
    }
    let time = clock_gettime(clock_getcpuclockid(Pid::from_raw(pid))?)?;
    Ok(time.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_grows_and_that_of_no_process_is_an_error() {
        let own = std::process::id().cast_signed();
        let before = cpu_time(own).unwrap();
        while cpu_time(own).unwrap() == before {
            std::hint::black_box(before);
        }
        for none in [i32::MAX, MOST, 0, -1] {
            assert!(cpu_time(none).is_err(), "{none}");
        }
    }
}
