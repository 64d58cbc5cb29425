//! Ctrl-C while named temporary files exist: the work ends, and the files go with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
}
