//! The processor's own count of instruction-TLB misses, where there is one.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};
use serde::Serialize;

use crate::failure::plain;

/// What the hardware counted while the command ran natively, in user mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "counters")]
pub(super) enum Counted {
    /// The event that `perf stat -e iTLB-load-misses` counts; cores differ in whether a hit in the
    /// second level is one.
    Available {
        /// Instructions retired.
        instructions: u64,
        /// Misses.
        itlb_misses: u64,
    },
    /// There are no such counters here.
    Missing {
        /// What the kernel said.
        reason: String,
    },
}

/// Counters that every child started from now on inherits, each counting from its exec on.
pub(super) struct Counters {
    instructions: Counter,
    misses: Counter,
}

impl Counters {
    /// Opens both counters, stopped.
    pub(super) fn open() -> Result<Counters, Counted> {
        let itlb = Cache {
            which: CacheId::ITLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        let open = |mut builder: Builder<'_>| {
            builder
                .inherit(true)
                .enable_on_exec(true)
                .build()
                .map_err(missing)
        };
        Ok(Counters {
            instructions: open(Builder::new(Hardware::INSTRUCTIONS))?,
            misses: open(Builder::new(itlb))?,
        })
    }

    /// The sums over the children that have ended.
    pub(super) fn read(mut self) -> Counted {
        match (self.instructions.read(), self.misses.read()) {
            (Ok(instructions), Ok(itlb_misses)) => Counted::Available {
                instructions,
                itlb_misses,
            },
            (Err(error), _) | (_, Err(error)) => missing(error),
        }
    }
}

fn missing(error: io::Error) -> Counted {
    let reason = format!("perf_event_open: {}", plain(&error));
    Counted::Missing { reason }
}
