//! A file mapped at an address of a chosen alignment.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use hugetext_leaf::{Leaf, Span};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A shared read-only mapping of a range of a file, placed so that address and file offset are
/// congruent modulo a leaf. Unmapped when dropped.
///
/// Invariant: `[reserved, reserved + reserved_len)` is address space this value owns, and
/// `[start, start + len)` inside it maps the file with at least PROT_READ.
#[derive(Debug)]
pub struct FileMapping {
    reserved: NonNull<u8>,
    reserved_len: usize,
    start: NonNull<u8>,
    range: Span,
}

// SAFETY: the mapping is not tied to the thread that made it; shared access only reads.
unsafe impl Send for FileMapping {}
// SAFETY: as above; no method writes through the mapping.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps `range` (page-aligned file offsets) so that address ≡ offset (mod `leaf`). Executable
    /// where the mount allows it, as text is; else readable only.
    pub fn new(file: &File, range: Span, leaf: Leaf) -> io::Result<FileMapping> {
        let len = usize::try_from(range.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let slack = usize::try_from(leaf.bytes()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let reserved_len = len
            .checked_add(slack * 2)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        if len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new anonymous mapping at an address the kernel picks disturbs nothing.
        let reserved = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            rustix::mm::mmap_anonymous(ptr::null_mut(), reserved_len, ProtFlags::empty(), flags)?
        };
        let reserved = NonNull::new(reserved.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let base = reserved.as_ptr() as u64;
        let wanted = leaf.align_up(base) + leaf.offset_in(range.start);
        let skip = (wanted - base) as usize;
        // SAFETY: skip < 2 * leaf, so skip + len lies inside the reservation.
        let start = unsafe { reserved.add(skip) };
        let mapping = FileMapping {
            reserved,
            reserved_len,
            start,
            range,
        };
        mapping
            .map_over(file, ProtFlags::READ | ProtFlags::EXEC)
            .or_else(|error| {
                match error.kind() {
                    // noexec mounts
                    io::ErrorKind::PermissionDenied => mapping.map_over(file, ProtFlags::READ),
                    _ => Err(error),
                }
            })?;
        Ok(mapping)
    }

    fn map_over(&self, file: &File, protection: ProtFlags) -> io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: MAP_FIXED replaces only address space that this value reserved and that
        // nothing else refers to.
        unsafe {
            rustix::mm::mmap(
                self.start.as_ptr().cast(),
                self.len(),
                protection,
                flags,
                file,
                self.range.start,
            )?;
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.range.len() as usize
    }

    /// The file range mapped.
    pub fn range(&self) -> Span {
        self.range
    }

    /// The addresses mapped.
    pub fn addresses(&self) -> Span {
        let start = self.start.as_ptr() as u64;
        Span::new(start, start + self.range.len())
    }

    /// The address of a file offset inside the range.
    fn at(&self, offset: u64) -> Option<NonNull<u8>> {
        if !self.range.contains(offset) {
            return None;
        }
        // SAFETY: offset lies inside the range, so the result lies inside the mapping.
        Some(unsafe { self.start.add((offset - self.range.start) as usize) })
    }

    /// The part of the mapping that shows `range`; `None` unless it lies inside.
    fn part(&self, range: Span) -> Option<(*mut libc::c_void, usize)> {
        let inside = range.start >= self.range.start && range.end <= self.range.end;
        let start = self.at(range.start).filter(|_| inside)?;
        Some((start.as_ptr().cast(), range.len() as usize))
    }

    /// Faults in the page at a file offset. A page beyond the end of the file would raise SIGBUS,
    /// also if the file shrinks meanwhile, so the kernel does the reading (MADV_POPULATE_READ,
    /// Linux 5.14), which says EFAULT instead.
    pub fn touch(&self, range: Span) -> io::Result<()> {
        self.advise(range, libc::MADV_POPULATE_READ)
    }

    /// Asks for huge pages at the next faults (MADV_HUGEPAGE).
    pub fn want_huge(&self) -> io::Result<()> {
        let (start, len) = self.part(self.range).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is the mapping owned by self; the advice changes no content.
        unsafe { rustix::mm::madvise(start, len, Advice::LinuxHugepage) }.map_err(io::Error::from)
    }

    /// Gathers `range` into huge folios now (MADV_COLLAPSE, Linux 6.1).
    pub fn collapse(&self, range: Span) -> io::Result<()> {
        self.advise(range, crate::region::MADV_COLLAPSE)
    }

    fn advise(&self, range: Span, advice: libc::c_int) -> io::Result<()> {
        let (start, len) = self.part(range).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range lies inside the mapping owned by self; populating and collapsing
        // change neither content nor protection.
        match unsafe { libc::madvise(start, len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Keeps every page of the mapping in memory until it is dropped (mlock).
    pub fn lock(&self) -> io::Result<()> {
        let (start, len) = self.part(self.range).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is the mapping owned by self.
        unsafe { rustix::mm::mlock(start, len) }.map_err(io::Error::from)
    }

    /// For each page of the mapping, whether the page cache holds it (mincore). The kernel tells
    /// this only to those who own the file or may write it; others are told that all are held
    /// (mm/mincore.c, can_do_mincore()).
    pub fn resident(&self) -> io::Result<Vec<bool>> {
        let page = rustix::param::page_size();
        let mut map = vec![0u8; self.len().div_ceil(page)];
        let (start, len) = self.part(self.range).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is the mapping owned by self, and the vector has one byte a page.
        match unsafe { libc::mincore(start, len, map.as_mut_ptr()) } {
            0 => Ok(map.into_iter().map(|byte| byte & 1 != 0).collect()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the reservation is owned by self, and no reference into it outlives self.
        // A failure would leave address space behind, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
    }
}
