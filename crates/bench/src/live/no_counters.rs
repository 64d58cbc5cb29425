//! An architecture on which nothing is counted.

use hugetext_host::Pid;

/// No counters.
pub(super) enum Counters {}

impl Counters {
    /// Always an error.
    pub(super) fn start(_pids: &[Pid]) -> Result<Counters, String> {
        Err("hugetext counts no events on this architecture".to_owned())
    }

    /// Nothing.
    pub(super) fn stop(self) -> Vec<(&'static str, Option<f64>)> {
        match self {}
    }
}
