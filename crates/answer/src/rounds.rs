//! The option that every benchmark has.

use clap::Args;
use hugetext_bench::Rounds;

/// The number of rounds.
#[derive(Debug, Clone, Copy, Args)]
pub struct RoundsArgument {
    /// Number of rounds; each measures every side
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
}

impl From<RoundsArgument> for Rounds {
    fn from(argument: RoundsArgument) -> Rounds {
        Rounds {
            count: argument.rounds,
        }
    }
}
