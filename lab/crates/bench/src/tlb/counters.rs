//! The processor's own count of instruction-TLB misses, if it has one.

use std::io;

use hugetext_bench::of_whole_time;
use hugetext_engine::plain;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};

use super::counted::Counted;

/// Counters that every child started from now on inherits. Each counts from its exec on.
pub(crate) struct Counters {
    instructions: Counter,
    misses: Counter,
}

impl Counters {
    /// Opens both counters, stopped.
    pub(crate) fn open() -> Result<Counters, Counted> {
        let itlb = Cache {
            which: CacheId::ITLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        Counters::of(Builder::new(Hardware::INSTRUCTIONS), Builder::new(itlb))
    }

    fn of(instructions: Builder<'_>, misses: Builder<'_>) -> Result<Counters, Counted> {
        let open = |mut builder: Builder<'_>| {
            builder
                .inherit(true)
                .enable_on_exec(true)
                .build()
                .map_err(missing)
        };
        Ok(Counters {
            instructions: open(instructions)?,
            misses: open(misses)?,
        })
    }

    /// The sums over the children that have ended.
    pub(crate) fn read(mut self) -> Counted {
        let read = |counter: &mut Counter| counter.read_count_and_time().map(of_whole_time);
        match (read(&mut self.instructions), read(&mut self.misses)) {
            (Ok(Some(instructions)), Ok(Some(itlb_misses))) => Counted::Available {
                instructions,
                itlb_misses,
            },
            (Err(error), _) | (_, Err(error)) => missing(error),
            (Ok(_), Ok(_)) => Counted::Missing {
                reason: "other processes used the processor's counters all the time".to_owned(),
            },
        }
    }
}

fn missing(error: io::Error) -> Counted {
    let reason = format!("perf_event_open: {}", plain(&error));
    Counted::Missing { reason }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use perf_event::events::Software;

    use super::*;

    #[test]
    fn counts_what_children_do_from_their_exec_on() {
        // Every kernel has these events; the processor's own counters are read in the same way.
        let opened = Counters::of(
            Builder::new(Software::PAGE_FAULTS_MIN),
            Builder::new(Software::TASK_CLOCK),
        );
        let counters = match opened {
            Ok(counters) => counters,
            Err(missing) => {
                println!("skipped: {missing:?}");
                return;
            }
        };
        // Faults of this process do not count, because it calls exec no more.
        std::hint::black_box(vec![1u8; 8 << 20]);
        for _ in 0..2 {
            assert!(Command::new("true").status().unwrap().success());
        }
        let Counted::Available {
            instructions: faults,
            itlb_misses: nanoseconds,
        } = counters.read()
        else {
            panic!("opened, but cannot be read");
        };
        assert!((20..1500).contains(&faults), "{faults}");
        assert!(nanoseconds > 0);
    }
}
