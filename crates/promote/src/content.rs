//! What a range of addresses maps, and the one call that makes it so.

use std::io;

use hugetext_leaf::{FileId, Perms, Span};

use crate::arch::{Architecture, Native};
use crate::call::{CallError, Caller, bits};
use crate::maps::Mapped;
use crate::target::prot;

/// What is mapped at a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A private mapping of a file.
    File {
        /// The index of the file in the change.
        file: usize,
        /// Its identity.
        id: FileId,
        /// File offset of the first address.
        offset: u64,
        /// Access rights.
        perms: Perms,
        /// Whether it is mapped with PROT_BTI (arm64).
        bti: bool,
    },
    /// Anonymous memory without access rights, which keeps other mappings away.
    Reserved,
    /// No mapping.
    Nothing,
}

/// One change of a mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Page-aligned addresses.
    pub addresses: Span,
    /// The present content, which is restored if a later step fails.
    pub before: Content,
    /// The new content.
    pub after: Content,
}

impl Step {
    /// Whether it replaces what the process may execute or read. A hole of the loader is not that.
    pub(crate) fn replaces_content(&self) -> bool {
        matches!(self.before, Content::File { perms, .. } if perms.read || perms.exec)
    }
}

/// Whole windows that several steps filled. They are mapped once more by one call: a page table that a step
/// covered in part stays, and where there is a table the kernel maps no PMD leaf. A call that covers all of its
/// window frees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join {
    /// Whole windows.
    pub addresses: Span,
    /// What the steps have mapped there.
    pub content: Content,
}

impl Content {
    /// The same, with the number of its file counted from `first`.
    pub(crate) fn renumbered(self, first: usize) -> Content {
        match self {
            Content::File {
                file,
                id,
                offset,
                perms,
                bti,
            } => Content::File {
                file: first + file,
                id,
                offset,
                perms,
                bti,
            },
            other => other,
        }
    }

    /// Makes this the content of `addresses`, whose present content is `there`. One call does it:
    /// the kernel replaces a mapping under the write lock of the address space. So every other
    /// thread or process that shares the address space sees either the old mapping or the new one.
    pub(crate) fn establish(
        &self,
        caller: &mut Caller<'_>,
        fds: &[u64],
        addresses: Span,
        there: &Content,
    ) -> Result<(), CallError> {
        let (start, len) = (addresses.start, addresses.len());
        let place = match there {
            Content::Nothing => libc::MAP_FIXED_NOREPLACE,
            _ => libc::MAP_FIXED,
        };
        let arguments = match *self {
            Content::Nothing => {
                return caller
                    .call(libc::SYS_munmap, [start, len, 0, 0, 0, 0])
                    .map(drop);
            }
            Content::Reserved => {
                let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                [start, len, 0, bits(kind | place), NO_FILE, 0]
            }
            Content::File {
                file,
                offset,
                perms,
                bti,
                ..
            } => {
                let missing = || CallError::Refused(io::ErrorKind::InvalidInput.into());
                let fd = fds.get(file).copied().ok_or_else(missing)?;
                [
                    start,
                    len,
                    prot(perms, bti),
                    bits(libc::MAP_PRIVATE | place),
                    fd,
                    offset,
                ]
            }
        };
        match caller.call(Native::MMAP, arguments)? {
            at if at == start => Ok(()),
            at => {
                // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
                let _ = caller.call(libc::SYS_munmap, [at, len, 0, 0, 0, 0]);
                Err(CallError::Refused(io::ErrorKind::AddrInUse.into()))
            }
        }
    }

    /// Whether `maps` shows this over all of `addresses`.
    pub(crate) fn is_shown(&self, maps: &[Mapped], addresses: Span) -> bool {
        let there = maps.iter().filter(|map| map.addresses.overlaps(&addresses));
        let there: Vec<&Mapped> = there.collect();
        let covered: u64 = there
            .iter()
            .map(|map| map.addresses.intersect(&addresses).len())
            .sum();
        match *self {
            Content::Nothing => there.is_empty(),
            Content::Reserved => {
                let reserved = |map: &&Mapped| map.file.ino == 0 && map.perms == Perms::default();
                covered == addresses.len() && there.iter().all(reserved)
            }
            Content::File {
                id, offset, perms, ..
            } => {
                let same = |map: &&Mapped| {
                    let linear = map.offset.wrapping_sub(map.addresses.start)
                        == offset.wrapping_sub(addresses.start);
                    map.file == id && map.perms == perms && map.private && linear
                };
                covered == addresses.len() && there.iter().all(same)
            }
        }
    }
}

/// The file descriptor of a mapping without a file.
pub(crate) const NO_FILE: u64 = u64::MAX;
