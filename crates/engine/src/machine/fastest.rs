//! The time that something takes when nothing disturbs it.

use std::io;
use std::time::{Duration, Instant};

/// Of so many rounds the fastest counts: whatever else runs can only make one slower.
const ROUNDS: usize = 8;
/// So many are made on the slowest machine, too.
const LEAST_ROUNDS: usize = 3;

/// The time of the fastest of some rounds, each of which measures its own. After `longest`, no further round begins, but
/// three are made in any case.
pub fn fastest(
    longest: Duration,
    mut round: impl FnMut() -> io::Result<Duration>,
) -> io::Result<Duration> {
    let start = Instant::now();
    let mut best = round()?;
    for done in 1..ROUNDS {
        if done >= LEAST_ROUNDS && start.elapsed() > longest {
            break;
        }
        best = best.min(round()?);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_first_round_is_not_the_only_one() {
        let mut times = [900, 20, 30, 40, 50, 60, 70, 80]
            .map(Duration::from_millis)
            .into_iter();
        let found = fastest(Duration::ZERO, || {
            times.next().ok_or(io::ErrorKind::Other.into())
        });
        assert_eq!(found.unwrap(), Duration::from_millis(20));
    }
}
