//! What the processor counted by itself.

use hugetext_bench::MISSES_ARE_WALKS;
use schemars::JsonSchema;
use serde::Serialize;

/// The hardware's counts while the command ran natively, in user mode.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case", tag = "counters")]
pub(crate) enum Counted {
    /// The event that `perf stat -e iTLB-load-misses` counts. On some cores a hit in the second
    /// level counts as a miss, on others not.
    Available {
        /// Instructions retired.
        instructions: u64,
        /// Misses.
        itlb_misses: u64,
    },
    /// Such counters are not available.
    Missing {
        /// The kernel's error.
        reason: String,
    },
}

impl Counted {
    /// See [`MISSES_ARE_WALKS`].
    pub(crate) const fn are_walks() -> bool {
        MISSES_ARE_WALKS
    }
}
