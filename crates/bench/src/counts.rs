//! What the processor's counters mean.

#[cfg(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
use perf_event::CountAndTime;

/// Whether iTLB-load-misses of perf counts page walks, which misses in both levels cause. It does on x86
/// (arch/x86/events/amd/core.c: event 0x85; intel/core.c: 0x85, umask 1, walks), while
/// arm64 counts refills of the first level (L1I_TLB_REFILL, drivers/perf/arm_pmuv3.c).
pub const MISSES_ARE_WALKS: bool = cfg!(target_arch = "x86_64");

/// The count for the whole time. A processor has few counters, and the kernel lets events take
/// turns: the counted part is scaled up (perf_event_open(2), `time_running`). `None` if the event
/// never had its turn.
#[cfg(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub fn of_whole_time(counted: CountAndTime) -> Option<u64> {
    let (enabled, running) = (counted.time_enabled, counted.time_running);
    if running == enabled {
        return Some(counted.count);
    }
    let scaled = u128::from(counted.count) * u128::from(enabled);
    u64::try_from(scaled.checked_div(u128::from(running))?).ok()
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
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
}
