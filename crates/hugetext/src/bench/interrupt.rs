//! Ctrl-C and time limits: the work ends, and named temporary files are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Failure, plain};

/// Remembers that the user wants to stop.
pub(super) struct Interrupt {
    stop: Arc<AtomicBool>,
    /// The number of that signal; 0 before it comes.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on, records SIGINT and SIGTERM. A second signal ends the process at once.
    pub(super) fn watch() -> Result<Interrupt, Failure> {
        let (stop, signal) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        for number in [SIGINT, SIGTERM] {
            flag::register_conditional_default(number, Arc::clone(&stop))
                .and_then(|_| {
                    let value = number.unsigned_abs() as usize;
                    flag::register_usize(number, Arc::clone(&signal), value)
                })
                .and_then(|_| flag::register(number, Arc::clone(&stop)))
                .map_err(|error| Failure::new("signals", plain(&error)))?;
        }
        Ok(Interrupt { stop, signal })
    }

    /// An error if a signal came.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::new("bench", "interrupted")),
            false => Ok(()),
        }
    }

    /// The exit status for the signal, as shells report it.
    pub(super) fn status(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }

    /// A limit of `seconds` from now.
    pub(super) fn within(&self, seconds: u64) -> Bounds<'_> {
        Bounds {
            interrupt: self,
            seconds,
            end: Instant::now().checked_add(Duration::from_secs(seconds)),
        }
    }
}

/// The time limit of a benchmark.
pub(super) struct Bounds<'i> {
    interrupt: &'i Interrupt,
    seconds: u64,
    end: Option<Instant>,
}

impl Bounds<'_> {
    /// An error if a signal came or the time is up.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.interrupt.check()?;
        match self.end {
            Some(end) if Instant::now() >= end => {
                let problem = format!("not done after {} s", self.seconds);
                Err(Failure::new("bench", problem).remedy("raise --timeout, or measure less"))
            }
            _ => Ok(()),
        }
    }
}
