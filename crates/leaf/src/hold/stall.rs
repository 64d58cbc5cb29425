//! Why tasks stalled on memory, by what the kernel counted meanwhile.

use crate::geometry::Leaf;

/// What the kernel has counted since it started (/proc/vmstat). `None`: this kernel does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Pages of a working set that were read again soon after they had been dropped
    /// (workingset_restore_file and workingset_restore_anon, Linux 5.9).
    pub restored: Option<u64>,
    /// Pages read from swap (pswpin).
    pub swapped_in: Option<u64>,
}

impl MemoryEvents {
    /// So many bytes read again are tolerated: what somebody does once, and no machine notices.
    const TOLERATED: u64 = 1 << 20;
    /// And this part of what is held.
    const TOLERATED_PART: u64 = 32;

    /// Whether so much of a working set was read again between two looks, a second apart, that others miss the `held` bytes.
    /// Whoever reads a file a little larger than the memory that is left reads it from the disk again and again,
    /// and waits too little for a stall to be reported. What is held saves less than that costs.
    pub fn miss(before: MemoryEvents, after: MemoryEvents, page: Leaf, held: u64) -> bool {
        let pages = after
            .restored
            .zip(before.restored)
            .map_or(0, |(after, before)| after.saturating_sub(before));
        let tolerated = MemoryEvents::TOLERATED.max(held / MemoryEvents::TOLERATED_PART);
        held > 0 && pages.saturating_mul(page.bytes()) > tolerated
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
}

/// A stall with less than this part of memory left is a shortage, with any counts.
const LITTLE: u64 = 8;

impl StallCause {
    /// The cause of a stall between two looks. It is a shortage unless it is certain that it is none:
    /// `available` of `total` bytes are plenty, and no page that was needed had been dropped or swapped
    /// out.
    pub fn between(
        before: MemoryEvents,
        after: MemoryEvents,
        available: u64,
        total: u64,
    ) -> StallCause {
        let grew = |before: Option<u64>, after: Option<u64>| {
            Some(after?.saturating_sub(before?)).map(|difference| difference > 0)
        };
        let is_plenty = available > total / LITTLE;
        let is_at_rest = grew(before.restored, after.restored) == Some(false)
            && grew(before.swapped_in, after.swapped_in) == Some(false);
        if is_plenty && is_at_rest {
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
    };

    #[test]
    fn what_is_read_again_is_missed_if_it_is_much_beside_what_is_held() {
        let after = |restored| MemoryEvents { restored, ..BEFORE };
        let miss = |restored, held| MemoryEvents::miss(BEFORE, after(restored), Leaf::K4, held);
        // 32 MiB are held, so 1 MiB is tolerated.
        assert!(!miss(Some(5 + 256), 32 << 20));
        assert!(miss(Some(5 + 257), 32 << 20));
        assert!(!miss(Some(5 + 257), 64 << 20));
        assert!(!miss(Some(5 + 256), 2 << 20));
        assert!(miss(Some(5 + 257), 2 << 20));
        assert!(!miss(Some(1 << 40), 0));
        assert!(!miss(None, 32 << 20));
        // A counter that went back says nothing.
        assert!(!miss(Some(0), 1));
    }

    #[test]
    fn a_stall_is_a_shortage_if_little_is_left_or_what_was_dropped_is_missed() {
        let cause = |after, available| StallCause::between(BEFORE, after, available, 800);
        assert_eq!(cause(BEFORE, 101), StallCause::Plenty);
        assert_eq!(cause(BEFORE, 100), StallCause::Shortage);
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
            assert_eq!(cause(short, 800), StallCause::Shortage, "{short:?}");
        }
    }
}
