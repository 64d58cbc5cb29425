//! How much memory preparation may take, so that nothing that runs has to pay for it.

use hugetext_host::memory_limit;

/// What the preparation of the largest programs takes beside their page cache: compilers and
/// browsers were measured at 28 MiB.
const WORK: u64 = 32 << 20;

/// Bytes of memory that are left for text on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room(Option<u64>);

impl Room {
    /// What the control groups of this process leave; everything where that cannot be told.
    pub(crate) fn here() -> Room {
        Room::within(memory_limit().ok().flatten())
    }

    /// A third of a limit, less what preparation itself takes: the command needs memory too, and
    /// what exceeds the limit is killed.
    fn within(limit: Option<u64>) -> Room {
        Room(limit.map(|limit| (limit / 3).saturating_sub(WORK)))
    }

    /// Whether there is none at all.
    pub(crate) fn is_none(self) -> bool {
        self.0 == Some(0)
    }

    /// At most `wanted`.
    pub(crate) fn at_most(self, wanted: u64) -> u64 {
        self.0.map_or(wanted, |left| left.min(wanted))
    }

    /// Takes `bytes` of it; whether they were there.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
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
            assert!(Room::within(Some(small)).is_none());
        }
        let mut room = Room::within(Some(192 * M));
        assert!(room.take(20 * M));
        assert!(!room.take(20 * M));
        assert_eq!(room.at_most(100 * M), 12 * M);
        let mut endless = Room::within(None);
        assert!(endless.take(u64::MAX) && endless.take(u64::MAX) && !endless.is_none());
        assert_eq!(endless.at_most(M), M);
    }
}
