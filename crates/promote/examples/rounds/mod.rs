//! Threads that work in rounds, and count them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Waits until every thread has begun and ended another round. Returns the rounds of all of them; `None` if a
/// thread is stuck.
pub(crate) fn all_go_on(rounds: &[AtomicU64]) -> Option<u64> {
    let done = || rounds.iter().map(|round| round.load(Ordering::Relaxed));
    let seen: Vec<u64> = done().collect();
    let begun = Instant::now();
    for (round, seen) in rounds.iter().zip(seen) {
        while round.load(Ordering::Relaxed) < seen + 2 {
            if begun.elapsed() >= Duration::from_secs(60) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Some(done().sum())
}
