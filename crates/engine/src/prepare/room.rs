//! Limits the memory of preparation, so that other processes do not lose theirs.

use hugetext_host::{available_memory, memory_limit};

/// Memory of the preparation itself, without page cache. For the largest programs, compilers and
/// browsers, 28 MiB were measured.
const WORK: u64 = 32 << 20;

/// Bytes of memory that remain for text on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRoom(Option<u64>);

impl MemoryRoom {
    /// The memory that the control groups of this process leave; unlimited if that is unknown.
    pub fn here() -> MemoryRoom {
        MemoryRoom::within(memory_limit().ok().flatten())
    }

    /// The same for copies that are wanted beside the files: at most a quarter of what is free now, so that
    /// nobody else pays for them.
    pub fn of_replicas() -> MemoryRoom {
        let free = available_memory().map_or(u64::MAX, |free| free / 4);
        MemoryRoom(Some(MemoryRoom::here().at_most(free)))
    }

    /// A third of a limit, minus the memory of the preparation itself: the command needs memory
    /// too, and the kernel kills processes beyond the limit.
    fn within(limit: Option<u64>) -> MemoryRoom {
        MemoryRoom(limit.map(|limit| (limit / 3).saturating_sub(WORK)))
    }

    /// Whether nothing remains.
    pub fn is_none(self) -> bool {
        self.0 == Some(0)
    }

    /// At most `wanted`.
    pub fn at_most(self, wanted: u64) -> u64 {
        self.0.map_or(wanted, |left| left.min(wanted))
    }

    /// Takes `bytes` of it. Returns whether that many remained.
    pub fn take(&mut self, bytes: u64) -> bool {
        let Some(left) = &mut self.0 else {
            return true;
        };
        match left.checked_sub(bytes) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    #[test]
    fn a_small_group_is_left_alone_and_a_larger_one_keeps_two_thirds() {
        for small in [0, 8 * M, 32 * M, 96 * M] {
            assert!(MemoryRoom::within(Some(small)).is_none());
        }
        let mut room = MemoryRoom::within(Some(192 * M));
        assert!(room.take(20 * M));
        assert!(!room.take(20 * M));
        assert_eq!(room.at_most(100 * M), 12 * M);
        let mut endless = MemoryRoom::within(None);
        assert!(endless.take(u64::MAX) && endless.take(u64::MAX) && !endless.is_none());
        assert_eq!(endless.at_most(M), M);
    }
}
