//! Ctrl-C and time limits: the work ends, and named temporary files go with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Failure, plain};

/// Remembers that the user wants to stop.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are remembered. A second one ends the process at once.
    pub(super) fn watch() -> Result<Interrupt, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_default(signal, Arc::clone(&stop))
                .and_then(|_| flag::register(signal, Arc::clone(&stop)))
                .map_err(|error| Failure::new("signals", plain(&error)))?;
        }
        Ok(Interrupt(stop))
    }

    /// An error once a signal came.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Failure::new("bench", "interrupted")),
            false => Ok(()),
        }
    }

    /// From now on, at most `seconds`.
    pub(super) fn within(&self, seconds: u64) -> Bounds<'_> {
        Bounds {
            interrupt: self,
            seconds,
            end: Instant::now().checked_add(Duration::from_secs(seconds)),
        }
    }
}

/// How long a benchmark may go on.
pub(super) struct Bounds<'i> {
    interrupt: &'i Interrupt,
    seconds: u64,
    end: Option<Instant>,
}

impl Bounds<'_> {
    /// An error once a signal came or the time is up.
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
