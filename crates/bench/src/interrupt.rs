//! Ctrl-C and time limits: the work ends, and named temporary files are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hugetext_engine::plain;
use hugetext_host::ProcessStatus;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::BenchError;

/// How long a signal may wait to be seen.
pub(crate) const NAP: Duration = Duration::from_millis(50);

/// Remembers that the user wants to stop. By default it is told nothing.
#[derive(Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    /// The number of that signal; 0 before it comes.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on, records SIGINT and SIGTERM, and SIGHUP unless nohup(1) had it ignored. A second
    /// signal ends the process at once.
    pub fn watch() -> Result<Interrupt, BenchError> {
        let (stop, signal) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for number in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            flag::register_conditional_default(number, Arc::clone(&stop))
                .and_then(|_| {
                    let value = number.unsigned_abs() as usize;
                    flag::register_usize(number, Arc::clone(&signal), value)
                })
                .and_then(|_| flag::register(number, Arc::clone(&stop)))
                .map_err(|error| BenchError::new("signals", plain(&error)))?;
        }
        Ok(Interrupt { stop, signal })
    }

    /// An error if a signal came.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            Err(BenchError::new("bench", "interrupted"))
        } else {
            Ok(())
        }
    }

    /// The exit status for the signal, as shells report it.
    pub fn status(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }

    /// A limit of `seconds` from now.
    pub fn within(&self, seconds: u64) -> Bounds<'_> {
        Bounds {
            interrupt: self,
            seconds,
            end: Instant::now().checked_add(Duration::from_secs(seconds)),
        }
    }
}

/// Whether this process ignores the signal `number`, as proc(5) has it; no where proc is not mounted.
fn is_ignored(number: i32) -> bool {
    let status = ProcessStatus::own().ok();
    let ignored = status.and_then(|status| status.signals("SigIgn"));
    let bit = number.unsigned_abs().saturating_sub(1);
    ignored.is_some_and(|set| set.checked_shr(bit).is_some_and(|set| set & 1 == 1))
}

/// The time limit of a benchmark.
pub struct Bounds<'i> {
    interrupt: &'i Interrupt,
    seconds: u64,
    end: Option<Instant>,
}

impl Bounds<'_> {
    /// An error if a signal came or the time is up.
    pub fn check(&self) -> Result<(), BenchError> {
        self.interrupt.check()?;
        match self.end {
            Some(end) if Instant::now() >= end => {
                let problem = format!("not done after {} s", self.seconds);
                Err(BenchError::new("bench", problem).remedy("raise --timeout, or measure less"))
            }
            _ => Ok(()),
        }
    }
}
