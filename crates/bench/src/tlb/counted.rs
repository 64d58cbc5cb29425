//! What the processor counted by itself.

use schemars::JsonSchema;
use serde::Serialize;

/// The hardware's counts while the command ran natively, in user mode.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case", tag = "counters")]
pub enum Counted {
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
    /// Whether the event counts page walks, which misses in both levels cause. It does on x86
    /// (arch/x86/events/amd/core.c: event 0x85; intel/core.c: 0x85, umask 1, walks), while
    /// arm64 counts refills of the first level (L1I_TLB_REFILL, drivers/perf/arm_pmuv3.c).
    pub const fn are_walks() -> bool {
        cfg!(target_arch = "x86_64")
    }
}
