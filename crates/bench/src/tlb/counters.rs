//! The processor's own count of instruction-TLB misses, if it has one.

use std::io;

use hugetext_engine::plain;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, CountAndTime, Counter};

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

/// The count for the whole time. A processor has few counters, and the kernel lets events take
/// turns: the counted part is scaled up (perf_event_open(2), `time_running`). `None` if the event
/// never had its turn.
pub(crate) fn of_whole_time(counted: CountAndTime) -> Option<u64> {
    let (enabled, running) = (counted.time_enabled, counted.time_running);
    if running == enabled {
        return Some(counted.count);
    }
    let scaled = u128::from(counted.count) * u128::from(enabled);
    u64::try_from(scaled.checked_div(u128::from(running))?).ok()
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
    fn a_counter_that_took_turns_stands_for_the_whole_time() {
        let of = |count, time_enabled, time_running| {
            of_whole_time(CountAndTime {
                count,
                time_enabled,
                time_running,
            })
        };
        assert_eq!(of(700, 10, 10), Some(700));
        assert_eq!(of(700, 10, 4), Some(1750));
        assert_eq!(of(0, 10, 0), None);
        assert_eq!(of(0, 0, 0), Some(0));
        assert_eq!(of(u64::MAX, 10, 1), None);
    }

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
