//! Stalls on memory, as the kernel reports them (PSI, Documentation/accounting/psi.rst, Linux 5.2).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use hugetext_leaf::hold::Pressure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Reports when tasks have waited for memory for too long.
#[derive(Debug)]
pub struct PressureTrigger {
    file: File,
    pressure: Pressure,
}

/// The window of a process without CAP_SYS_RESOURCE (Linux 6.5).
const COMMON_WINDOW: Duration = Duration::from_secs(2);

impl PressureTrigger {
    /// Reports once per window if tasks waited for their share of it ([`Pressure::share`]). `path` is
    /// /proc/pressure/memory or memory.pressure of a control group.
    ///
    /// The window is half a second, in which the kernel looks ten times, or two seconds if it grants no shorter one.
    pub fn new(path: &Path, pressure: Pressure) -> io::Result<PressureTrigger> {
        let share = pressure.share();
        let short = PressureTrigger::with_window(path, pressure, share, Pressure::WINDOW);
        short.or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
                PressureTrigger::with_window(path, pressure, share, COMMON_WINDOW)
            }
            _ => Err(error),
        })
    }

    fn with_window(
        path: &Path,
        pressure: Pressure,
        share: f64,
        window: Duration,
    ) -> io::Result<PressureTrigger> {
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblock)
            .open(path)?;
        let kind = match pressure {
            Pressure::Some => "some",
            Pressure::Full => "full",
        };
        let stall = window.mul_f64(share.clamp(0.001, 1.0)).as_micros();
        // The request is one write, and ends with a zero byte.
        file.write_all(format!("{kind} {stall} {}\0", window.as_micros()).as_bytes())?;
        Ok(PressureTrigger { file, pressure })
    }

    /// Waits until one of `triggers` reports, or `timeout` has passed (`None`: forever), and returns what
    /// was reported. A report is told once, to whoever asks first; so nothing else may poll a trigger,
    /// not even an epoll instance that is polled itself. An error if a control group is gone.
    pub fn wait(
        triggers: &[PressureTrigger],
        timeout: Option<Duration>,
    ) -> io::Result<Vec<Pressure>> {
        let timeout = timeout.map(Timespec::try_from).transpose();
        let timeout = timeout.map_err(|_| io::ErrorKind::InvalidInput)?;
        let of = |trigger| PollFd::new(trigger, PollFlags::PRI);
        let mut ready: Vec<PollFd<'_>> = triggers.iter().map(|trigger| of(&trigger.file)).collect();
        match poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut reported = Vec::new();
        for (ready, trigger) in ready.iter().zip(triggers) {
            if ready.revents().contains(PollFlags::ERR) {
                return Err(io::ErrorKind::NotFound.into());
            }
            reported.extend(
                ready
                    .revents()
                    .contains(PollFlags::PRI)
                    .then_some(trigger.pressure),
            );
        }
        Ok(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_machine_reports_nothing() {
        let path = Path::new("/proc/pressure/memory");
        // All of a window: that never happens to a machine that runs tests.
        match PressureTrigger::with_window(path, Pressure::Full, 1.0, COMMON_WINDOW) {
            Err(error) => println!("skipped: no pressure reports for this user here: {error}"),
            Ok(trigger) => {
                let reported = PressureTrigger::wait(&[trigger], Some(Duration::ZERO));
                assert_eq!(reported.unwrap(), []);
            }
        }
        assert!(PressureTrigger::new(Path::new("/proc/self/status"), Pressure::Some).is_err());
    }
}
