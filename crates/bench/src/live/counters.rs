//! What the processor counts while a service runs: cycles, instructions, instruction-TLB misses.

use std::io;

use hugetext_engine::plain;
use hugetext_host::{Pid, Tid, threads};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use crate::counts::{MISSES_ARE_WALKS, of_whole_time};

/// More threads would take too many files.
const MOST_THREADS: usize = 512;

/// An event, and the name of what it counts.
#[derive(Debug, Clone, Copy)]
struct Counted {
    name: &'static str,
    event: fn() -> Builder<'static>,
}

const CYCLES: Counted = Counted {
    name: "cycles",
    event: || Builder::new(Hardware::CPU_CYCLES),
};

const INSTRUCTIONS: Counted = Counted {
    name: "instructions",
    event: || Builder::new(Hardware::INSTRUCTIONS),
};

const WALKS: &str = "page walks for text";

const MISSES: Counted = Counted {
    name: if MISSES_ARE_WALKS {
        WALKS
    } else {
        "iTLB misses"
    },
    event: || {
        Builder::new(Cache {
            which: CacheId::ITLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        })
    },
};

/// ITLB_WALK, a common event of the PMU of arm64 (Arm Architecture Reference Manual).
const ARM_WALKS: Counted = Counted {
    name: WALKS,
    event: || Builder::new(Raw::new(0x35)),
};

/// The events of the processor.
const EVENTS: &[Counted] = if cfg!(target_arch = "aarch64") {
    &[CYCLES, INSTRUCTIONS, MISSES, ARM_WALKS]
} else {
    &[CYCLES, INSTRUCTIONS, MISSES]
};

/// Counters on all threads of processes, and on the threads that these start.
pub(super) struct Counters {
    /// For each event that can be counted, one for each thread.
    counters: Vec<(&'static str, Vec<Counter>)>,
    /// The names of the other events, and the kernel's last reason.
    refused: (Vec<&'static str>, String),
}

impl Counters {
    /// Begins to count what this machine can count for this user.
    pub(super) fn start(pids: &[Pid]) -> Counters {
        Counters::of(pids, EVENTS)
    }

    fn of(pids: &[Pid], events: &[Counted]) -> Counters {
        let mut all = Counters {
            counters: Vec::new(),
            refused: Default::default(),
        };
        for Counted { name, event } in events.iter().copied() {
            match on_threads(pids, &event()) {
                Ok(counters) => all.counters.push((name, counters)),
                Err(reason) => {
                    all.refused.0.push(name);
                    all.refused.1 = reason;
                }
            }
        }
        all
    }

    /// The events that are not counted, and why; `None` if all are.
    pub(super) fn refused(&self) -> Option<String> {
        let (names, reason) = &self.refused;
        (!names.is_empty()).then(|| format!("not counted: {} ({reason})", names.join(", ")))
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

/// The instructions that processes retire in user mode, as a count of their work.
#[derive(Debug)]
pub(super) struct Instructions(Vec<Counter>);

impl Instructions {
    /// Begins to count; an error in words if this machine or this user cannot.
    pub(super) fn start(pids: &[Pid]) -> Result<Instructions, String> {
        Instructions::of(pids, (INSTRUCTIONS.event)())
    }

    fn of(pids: &[Pid], mut event: Builder<'_>) -> Result<Instructions, String> {
        // A counter that takes turns with others would only estimate, and an estimate may fall.
        Ok(Instructions(on_threads(pids, event.pinned(true))?))
    }

    /// Those since the start. They never become fewer.
    pub(super) fn read(&mut self) -> Result<u64, String> {
        let counts = self.0.iter_mut().map(|counter| match counter.read() {
            Ok(count) => Ok(count),
            // That is how the kernel says that a pinned event was not always on a counter.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err("others use all of the processor's counters".to_owned())
            }
            Err(error) => Err(plain(&error)),
        });
        counts.sum()
    }
}

/// `event` on each thread of `pids`.
fn on_threads(pids: &[Pid], event: &Builder<'_>) -> Result<Vec<Counter>, String> {
    let failed = |error: io::Error| format!("perf_event_open: {}", plain(&error));
    let mut all = Vec::new();
    for pid in pids {
        all.extend(threads(*pid).map_err(failed)?);
    }
    if all.len() > MOST_THREADS {
        let count = all.len();
        return Err(format!("{count} threads are too many to count in"));
    }
    let start = |thread: Tid| {
        let mut builder = event.clone();
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
    let counters = all
        .into_iter()
        .filter_map(|thread| start(thread).transpose());
    counters.collect::<io::Result<_>>().map_err(failed)
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    // Every kernel has these events; the processor's own are read in the same way.
    const FAULTS: Counted = Counted {
        name: "faults",
        event: || Builder::new(Software::PAGE_FAULTS_MIN),
    };

    /// A kind of event that no processor has.
    const UNKNOWN: Counted = Counted {
        name: "made-up",
        event: || Builder::new(Raw::new(u64::MAX)),
    };

    #[test]
    fn all_threads_of_a_process_are_counted_and_one_missing_event_takes_no_other_along() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = wait.recv();
            std::hint::black_box(vec![1u8; 16 << 20]);
        });
        let counters = Counters::of(&[Pid::own()], &[UNKNOWN, FAULTS]);
        let refused = counters.refused().unwrap();
        if refused.contains("faults") {
            println!("skipped: {refused}");
            return;
        }
        assert!(refused.starts_with("not counted: made-up (perf_event_open: "));
        drop(go);
        other.join().unwrap();
        let counted = counters.stop();
        let faults = counted.first().and_then(|(_, count)| *count);
        assert!(faults.is_some_and(|faults| faults > 4.0), "{counted:?}");
    }

    #[test]
    fn work_is_counted_in_every_thread_and_never_falls() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = wait.recv();
            std::hint::black_box(vec![1u8; 16 << 20]);
        });
        let mut work = match Instructions::of(&[Pid::own()], (FAULTS.event)()) {
            Ok(work) => work,
            Err(reason) => {
                println!("skipped: {reason}");
                return;
            }
        };
        let before = work.read().unwrap();
        drop(go);
        other.join().unwrap();
        // The thread has ended, and its faults still count.
        let after = work.read().unwrap();
        assert!(after >= before + 4, "{before}, then {after}");
        assert!(Instructions::of(&[Pid::own()], (UNKNOWN.event)()).is_err());
    }
}
