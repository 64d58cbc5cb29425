//! An architecture on which nothing is counted.

use hugetext_host::Pid;

const REASON: &str = "hugetext counts no events on this architecture";

/// No counters.
pub(super) struct Counters;

impl Counters {
    /// Counts nothing.
    pub(super) fn start(_pids: &[Pid]) -> Counters {
        Counters
    }

    /// Always a reason.
    pub(super) fn refused(&self) -> Option<String> {
        Some(format!("no cycles and no TLB misses: {REASON}"))
    }

    /// Nothing.
    pub(super) fn stop(self) -> Vec<(&'static str, Option<f64>)> {
        Vec::new()
    }
}

/// No instructions.
#[derive(Debug)]
pub(super) enum Instructions {}

impl Instructions {
    /// Always an error.
    pub(super) fn start(_pids: &[Pid]) -> Result<Instructions, String> {
        Err(REASON.to_owned())
    }

    /// Nothing.
    pub(super) fn read(&mut self) -> Result<u64, String> {
        match *self {}
    }
}
