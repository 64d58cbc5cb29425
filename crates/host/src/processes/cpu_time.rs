//! Processor time of other processes.

use std::io;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};

use super::id::Pid;

/// The user and system time of all threads of process `pid`, also of those that have ended, to the
/// nanosecond (clock_getcpuclockid(3)). Any user may read it.
pub fn cpu_time(pid: Pid) -> io::Result<Duration> {
    let time = clock_gettime(clock_getcpuclockid(pid.into())?)?;
    Ok(time.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_grows_and_that_of_no_process_is_an_error() {
        let own = Pid::own();
        let before = cpu_time(own).unwrap();
        while cpu_time(own).unwrap() == before {
            std::hint::black_box(before);
        }
        // The limit itself is never given.
        assert!(cpu_time(Pid::from_raw(1 << 22).unwrap()).is_err());
    }
}
