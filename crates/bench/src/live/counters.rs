//! What the processor counts while a service runs: cycles, instructions, instruction-TLB misses.

use std::io;

use hugetext_engine::plain;
use hugetext_host::{Pid, Tid, threads};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use crate::tlb::counters::of_whole_time;

/// More threads would take too many files.
const MOST_THREADS: usize = 512;

/// An event, and the name of what it counts.
struct Counted {
    name: &'static str,
    event: fn() -> Builder<'static>,
}

/// The events of the processor.
const EVENTS: [Counted; 3] = [
    Counted {
        name: "cycles",
        event: || Builder::new(Hardware::CPU_CYCLES),
    },
    Counted {
        name: "instructions",
        event: || Builder::new(Hardware::INSTRUCTIONS),
    },
    Counted {
        name: "iTLB misses",
        event: || {
            Builder::new(Cache {
                which: CacheId::ITLB,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            })
        },
    },
];

/// Counters on all threads of processes, and on the threads that these start.
pub(super) struct Counters {
    /// For each event, one for each thread.
    counters: Vec<(&'static str, Vec<Counter>)>,
}

impl Counters {
    /// Begins to count; an error in words if this machine or this user cannot.
    pub(super) fn start(pids: &[Pid]) -> Result<Counters, String> {
        Counters::of(pids, &EVENTS)
    }

    fn of(pids: &[Pid], events: &[Counted]) -> Result<Counters, String> {
        let failed = |error: io::Error| format!("perf_event_open: {}", plain(&error));
        let mut all = Vec::new();
        for pid in pids {
            all.extend(threads(*pid).map_err(failed)?);
        }
        if all.len() > MOST_THREADS {
            let count = all.len();
            return Err(format!("{count} threads are too many to count in"));
        }
        let start = |event: fn() -> Builder<'static>, thread: Tid| {
            let mut builder = event();
            let counter = builder
                .observe_pid(thread.as_raw())
                .inherit(true)
                .enabled(true);
            match counter.build() {
                // It has ended since.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
                other => other.map(Some),
            }
        };
        let counters = events.iter().map(|Counted { name, event }| {
            let each = all
                .iter()
                .filter_map(|thread| start(*event, *thread).transpose());
            Ok((*name, each.collect::<io::Result<Vec<Counter>>>()?))
        });
        let counters = counters.collect::<io::Result<_>>().map_err(failed)?;
        Ok(Counters { counters })
    }

    /// What was counted since the start; `None` for an event that never had its turn.
    pub(super) fn stop(self) -> Vec<(&'static str, Option<f64>)> {
        let each = self.counters.into_iter().map(|(name, counters)| {
            let counts = counters.into_iter().map(|mut counter| {
                let counted = counter.read_count_and_time().ok()?;
                of_whole_time(counted).map(|count| count as f64)
            });
            (name, counts.sum())
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    #[test]
    fn all_threads_of_a_process_are_counted() {
        // Every kernel has this event; the processor's own are read in the same way.
        let own = Pid::own();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = wait.recv();
            std::hint::black_box(vec![1u8; 16 << 20]);
        });
        let event = [Counted {
            name: "faults",
            event: || Builder::new(Software::PAGE_FAULTS_MIN),
        }];
        let counters = match Counters::of(&[own], &event) {
            Ok(counters) => counters,
            Err(reason) => {
                println!("skipped: {reason}");
                return;
            }
        };
        drop(go);
        other.join().unwrap();
        let counted = counters.stop();
        let faults = counted.first().and_then(|(_, count)| *count);
        assert!(faults.is_some_and(|faults| faults > 4.0), "{counted:?}");
    }
}
