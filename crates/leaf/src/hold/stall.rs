//! Why tasks stalled on memory, by what the kernel counted meanwhile.

/// What the kernel has counted since it started (/proc/vmstat). `None`: this kernel does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Pages of a working set that were read again soon after they had been dropped
    /// (workingset_restore_file and workingset_restore_anon, Linux 5.9).
    pub restored: Option<u64>,
    /// Pages read from swap (pswpin).
    pub swapped_in: Option<u64>,
    /// Allocations that had to wait until memory was compacted (compact_stall).
    pub compacted: Option<u64>,
}

/// Why tasks stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallCause {
    /// Memory is short. What is held is needed by others.
    Shortage,
    /// Memory is fragmented. Whoever asked for a huge folio waited, as the holder itself does, and
    /// nothing becomes better if memory is given up.
    Compaction,
}

/// A stall with less than this part of memory left is a shortage, whatever was counted.
const LITTLE: u64 = 8;

impl StallCause {
    /// The cause of a stall between two looks. It is a shortage unless it is certain that it is none:
    /// `available` of `total` bytes are plenty, memory was compacted, and no page that was needed had
    /// been dropped or swapped out.
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
        let is_fragmented = grew(before.compacted, after.compacted) == Some(true);
        let is_at_rest = grew(before.restored, after.restored) == Some(false)
            && grew(before.swapped_in, after.swapped_in) == Some(false);
        if is_plenty && is_fragmented && is_at_rest {
            StallCause::Compaction
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
        compacted: Some(3),
    };

    #[test]
    fn only_compaction_with_plenty_of_memory_is_no_shortage() {
        let compacted = MemoryEvents {
            compacted: Some(4),
            ..BEFORE
        };
        let cause = |after, available| StallCause::between(BEFORE, after, available, 800);
        assert_eq!(cause(compacted, 101), StallCause::Compaction);
        assert_eq!(cause(compacted, 100), StallCause::Shortage);
        assert_eq!(cause(BEFORE, 800), StallCause::Shortage);
        for short in [
            MemoryEvents {
                restored: Some(6),
                ..compacted
            },
            MemoryEvents {
                restored: None,
                ..compacted
            },
            MemoryEvents {
                swapped_in: Some(1),
                ..compacted
            },
        ] {
            assert_eq!(cause(short, 800), StallCause::Shortage, "{short:?}");
        }
    }
}
