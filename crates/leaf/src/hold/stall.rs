//! Why tasks stalled on memory, by what the kernel counted meanwhile.

use std::time::Duration;

use super::Pressure;
use crate::geometry::Leaf;

/// What the kernel has counted since it started (/proc/vmstat, and `total` in /proc/pressure/memory). `None`: this kernel
/// does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Pages of a working set that were read again soon after they had been dropped
    /// (workingset_restore_file and workingset_restore_anon, Linux 5.9).
    pub restored: Option<u64>,
    /// Pages read from swap (pswpin).
    pub swapped_in: Option<u64>,
    /// How long some tasks have waited for memory.
    pub some_waited: Option<Duration>,
    /// How long all tasks have.
    pub all_waited: Option<Duration>,
}

impl MemoryEvents {
    /// So many bytes read again are tolerated: what somebody does once, and no machine notices.
    const TOLERATED: u64 = 1 << 20;
    /// And this part of what is held.
    const TOLERATED_PART: u64 = 32;

    /// Whether so much of a working set was read again between two looks, a second apart, that others miss what is held.
    /// Whoever reads a file a little larger than the memory that is left reads it from the disk again and again,
    /// and waits too little for a stall to be reported. What is held saves less than that costs.
    pub fn miss(before: MemoryEvents, after: MemoryEvents, page: Leaf, supply: Supply) -> bool {
        let pages = after
            .restored
            .zip(before.restored)
            .map_or(0, |(after, before)| after.saturating_sub(before));
        let tolerated = MemoryEvents::TOLERATED.max(supply.held / MemoryEvents::TOLERATED_PART);
        supply.could_help() && pages.saturating_mul(page.bytes()) > tolerated
    }

    /// Whether tasks may have waited between two looks for as long as a report of `pressure` says. The first report of a
    /// trigger may be of nothing that happened.
    fn may_have_waited(before: MemoryEvents, after: MemoryEvents, pressure: Pressure) -> bool {
        let waited = |events: MemoryEvents| match pressure {
            Pressure::Some => events.some_waited,
            Pressure::Full => events.all_waited,
        };
        let grown = waited(after).zip(waited(before));
        grown.is_none_or(|(after, before)| after.saturating_sub(before) >= pressure.least())
    }
}

/// The memory of a machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supply {
    /// All of it.
    pub total: u64,
    /// What programs can still take (MemAvailable).
    pub available: u64,
    /// What is held.
    pub held: u64,
}

impl Supply {
    /// With less than this part left, memory is short, with any counts.
    const LITTLE: u64 = 8;
    /// What is held is nothing beside so many times as much that is left.
    const MUCH: u64 = 64;

    fn is_plenty(self) -> bool {
        self.available > self.total / Supply::LITTLE
    }

    /// Whether others would notice if what is held were given up. A machine that reclaims proactively (DAMON,
    /// memory.reclaim), or streams files through all its memory, reads some pages again with any amount of it.
    fn could_help(self) -> bool {
        self.held > 0 && self.held.saturating_mul(Supply::MUCH) >= self.available
    }
}

/// Why tasks stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallCause {
    /// Memory is short. What is held is needed by others.
    Shortage,
    /// Memory is plenty. Whoever waited asked for a huge folio that had to be made by compaction, as the
    /// holder itself does, or for pages that were taken from what nobody missed: the page cache of a
    /// machine at work fills all its memory. Nothing becomes better if memory is given up.
    Plenty,
    /// Nobody waited as long as was reported.
    Unfounded,
}

impl StallCause {
    /// The cause of a report of `pressure` between two looks. It is a shortage unless it is certain that it is none: nobody
    /// waited; or memory is plenty, and either no page that was needed had been dropped or swapped out, or what
    /// is held is nothing beside what is left.
    pub fn between(
        pressure: Pressure,
        before: MemoryEvents,
        after: MemoryEvents,
        supply: Supply,
    ) -> StallCause {
        if !MemoryEvents::may_have_waited(before, after, pressure) {
            return StallCause::Unfounded;
        }
        let grew = |before: Option<u64>, after: Option<u64>| {
            Some(after?.saturating_sub(before?)).map(|difference| difference > 0)
        };
        let is_at_rest = grew(before.restored, after.restored) == Some(false)
            && grew(before.swapped_in, after.swapped_in) == Some(false);
        if supply.is_plenty() && (is_at_rest || !supply.could_help()) {
            StallCause::Plenty
        } else {
            StallCause::Shortage
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: MemoryEvents = MemoryEvents {
        restored: Some(5),
        swapped_in: Some(0),
        some_waited: None,
        all_waited: None,
    };

    #[test]
    fn what_is_read_again_is_missed_if_it_is_much_beside_what_is_held() {
        let after = |restored| MemoryEvents { restored, ..BEFORE };
        let supply = |held| Supply {
            total: 1 << 30,
            available: 64 << 20,
            held,
        };
        let miss =
            |restored, held| MemoryEvents::miss(BEFORE, after(restored), Leaf::K4, supply(held));
        // 32 MiB are held, so 1 MiB is tolerated.
        assert!(!miss(Some(5 + 256), 32 << 20));
        assert!(miss(Some(5 + 257), 32 << 20));
        assert!(!miss(Some(5 + 257), 64 << 20));
        assert!(!miss(Some(5 + 256), 2 << 20));
        assert!(miss(Some(5 + 257), 2 << 20));
        assert!(!miss(Some(1 << 40), 0));
        assert!(!miss(None, 32 << 20));
        // A counter that went back says nothing.
        assert!(!miss(Some(0), 1 << 20));
        // It is nothing beside what is left.
        assert!(miss(Some(1 << 40), 1 << 20));
        assert!(!miss(Some(1 << 40), (1 << 20) - 1));
    }

    #[test]
    fn a_stall_is_a_shortage_if_little_is_left_or_what_was_dropped_is_missed() {
        let cause = |after, available, held| {
            let supply = Supply {
                total: 800,
                available,
                held,
            };
            StallCause::between(Pressure::Full, BEFORE, after, supply)
        };
        assert_eq!(cause(BEFORE, 101, 40), StallCause::Plenty);
        assert_eq!(cause(BEFORE, 100, 40), StallCause::Shortage);
        for short in [
            MemoryEvents {
                restored: Some(6),
                ..BEFORE
            },
            MemoryEvents {
                restored: None,
                ..BEFORE
            },
            MemoryEvents {
                swapped_in: Some(1),
                ..BEFORE
            },
        ] {
            assert_eq!(cause(short, 640, 10), StallCause::Shortage, "{short:?}");
            // Giving that up would change nothing.
            assert_eq!(cause(short, 640, 9), StallCause::Plenty, "{short:?}");
            assert_eq!(cause(short, 100, 1), StallCause::Shortage, "{short:?}");
        }
    }

    #[test]
    fn a_report_of_what_did_not_happen_is_no_stall() {
        let waited = |some: u64, all: u64| MemoryEvents {
            some_waited: Some(Duration::from_micros(some)),
            all_waited: Some(Duration::from_micros(all)),
            ..BEFORE
        };
        // As little memory as can be.
        let supply = Supply {
            total: 800,
            available: 1,
            held: 40,
        };
        let cause = |pressure, after| {
            StallCause::between(pressure, waited(1_000_000, 500_000), after, supply)
        };
        let (some, full) = (Pressure::Some, Pressure::Full);
        assert_eq!(
            cause(full, waited(2_000_000, 500_008)),
            StallCause::Unfounded
        );
        assert_eq!(
            cause(full, waited(2_000_000, 525_000)),
            StallCause::Shortage
        );
        assert_eq!(
            cause(some, waited(1_049_999, 500_000)),
            StallCause::Unfounded
        );
        assert_eq!(
            cause(some, waited(1_050_000, 500_000)),
            StallCause::Shortage
        );
        // A kernel that does not tell is believed.
        assert_eq!(cause(full, BEFORE), StallCause::Shortage);
    }
}
