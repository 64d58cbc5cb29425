//! Moves the page tables of old mappings aside, so that only one thread waits while they are
//! freed. Freeing takes 50 us for a MiB of base pages. Moving whole tables takes almost no time.

use hugetext_leaf::{Leaf, Span};

use crate::arch::{Architecture, Native};
use crate::call::{CallError, Caller, bits};

/// Unused addresses to which page tables are moved.
///
/// The mapping that they come from stays at its addresses, without pages (MREMAP_DONTUNMAP, Linux
/// 5.13 for files). Another process that shares the memory, such as a vfork child, may run
/// meanwhile. It finds the file's pages there. So only pages of the file may be moved.
pub(crate) struct Aside {
    room: Span,
    free: u64,
}

/// Tables are moved whole if both addresses are congruent modulo the span of one table, on every
/// page size that promotion knows.
const TABLE: Leaf = Leaf::M32;

impl Aside {
    /// Reserves addresses for the mappings at `places`; `None` if the process may have no more
    /// addresses.
    pub(crate) fn reserve(
        caller: &mut Caller<'_>,
        places: impl Iterator<Item = Span>,
    ) -> Result<Option<Aside>, CallError> {
        let len = places
            .map(|place| place.len() + 2 * TABLE.bytes())
            .sum::<u64>();
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        match caller.call(Native::MMAP, [0, len, 0, bits(kind), u64::MAX, 0]) {
            Ok(start) => Ok(Some(Aside {
                room: Span::new(start, start.saturating_add(len)),
                free: start,
            })),
            Err(CallError::Refused(_)) => Ok(None),
            Err(lost) => Err(lost),
        }
    }

    /// Moves the page tables of a mapping here. If the kernel refuses, they stay where they are,
    /// and freeing them only takes longer.
    pub(crate) fn take(&mut self, caller: &mut Caller<'_>, old: Span) -> Result<(), CallError> {
        let new = TABLE.align_up(self.free) + TABLE.offset_in(old.start);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let len = old.len();
        match caller.call(libc::SYS_mremap, [old.start, len, len, bits(flags), new, 0]) {
            Ok(_) => self.free = new + len,
            Err(CallError::Refused(_)) => {}
            Err(lost) => return Err(lost),
        }
        Ok(())
    }

    /// Keeps the reservation out of children that are forked before it is freed.
    pub(crate) fn keep_from_children(&self, caller: &mut Caller<'_>) {
        let advice = bits(libc::MADV_DONTFORK);
        let arguments = [self.room.start, self.room.len(), advice, 0, 0, 0];
        let _ = caller.call(libc::SYS_madvise, arguments);
    }

    /// Frees everything that was moved.
    pub(crate) fn give_up(self, caller: &mut Caller<'_>) {
        // If this call fails, only reserved addresses remain.
        let arguments = [self.room.start, self.room.len(), 0, 0, 0, 0];
        let _ = caller.call(libc::SYS_munmap, arguments);
    }
}
