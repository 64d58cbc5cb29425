//! Maps a file at an address of a chosen alignment.

use std::fs::File;
use std::io;

use hugetext_leaf::{Leaf, Perms, Span};
use rustix::mm::Advice;

use super::region::{Region, while_busy};

/// How many times a collapse is tried before EAGAIN is returned.
pub(super) const COLLAPSE_TRIES: u32 = 6;

/// A shared read-only mapping of a range of a file, placed so that address and file offset are
/// congruent modulo a leaf: a view of the page cache. Unmapped when dropped.
#[derive(Debug)]
pub struct FileMapping {
    region: Region,
    range: Span,
}

// SAFETY: the mapping is not tied to the thread that made it, and shared access only reads.
unsafe impl Send for FileMapping {}
// SAFETY: as above; no method writes through the mapping.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps `range` (page-aligned file offsets) so that address ≡ offset (mod `leaf`). The mapping
    /// is executable where the mount allows it, as text is; otherwise it is only readable.
    pub fn new(file: &File, range: Span, leaf: Leaf) -> io::Result<FileMapping> {
        FileMapping::with(file, range, leaf, true).or_else(|error| match error.kind() {
            // noexec mounts
            io::ErrorKind::PermissionDenied => FileMapping::readable(file, range, leaf),
            _ => Err(error),
        })
    }

    /// As [`FileMapping::new`], and never executable: for files of other users.
    pub fn readable(file: &File, range: Span, leaf: Leaf) -> io::Result<FileMapping> {
        FileMapping::with(file, range, leaf, false)
    }

    fn with(file: &File, range: Span, leaf: Leaf, exec: bool) -> io::Result<FileMapping> {
        let len = usize::try_from(range.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let perms = Perms {
            read: true,
            write: false,
            exec,
        };
        let region = Region::of_shared_file(file, range.start, len, leaf, perms)?;
        Ok(FileMapping { region, range })
    }

    /// The file range that is mapped.
    pub fn range(&self) -> Span {
        self.range
    }

    /// The addresses of the mapping.
    pub fn addresses(&self) -> Span {
        self.region.span()
    }

    /// The addresses of the mapping that show `range`.
    fn part(&self, range: Span) -> io::Result<(*mut libc::c_void, usize)> {
        let offset = range.start.checked_sub(self.range.start);
        let part = offset.and_then(|offset| self.region.part(offset, range.len()));
        part.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Faults in the page at a file offset. A page beyond the end of the file would raise SIGBUS,
    /// even if the file shrinks meanwhile, so the kernel does the reading (MADV_POPULATE_READ,
    /// Linux 5.14), which returns EFAULT instead.
    pub fn touch(&self, range: Span) -> io::Result<()> {
        self.advise(range, libc::MADV_POPULATE_READ)
    }

    /// Asks for huge pages at the next faults (MADV_HUGEPAGE).
    pub fn want_huge(&self) -> io::Result<()> {
        let (start, len) = self.part(self.range)?;
        // SAFETY: the range is the mapping owned by self; the advice changes no content.
        unsafe { rustix::mm::madvise(start, len, Advice::LinuxHugepage) }.map_err(io::Error::from)
    }

    /// Makes faults read only the page that they need (MADV_RANDOM).
    pub fn expect_random(&self) -> io::Result<()> {
        self.advise(self.range, libc::MADV_RANDOM)
    }

    /// Makes huge folios of `range` now (MADV_COLLAPSE, Linux 6.1). It is tried again if the kernel
    /// reports that another process, such as khugepaged, used these pages at that moment.
    ///
    /// Missing pages are read first: Linux 7.3 reads them with folios locked, and if the file is
    /// truncated meanwhile, both wait forever (kernel/collapse).
    pub fn collapse(&self, range: Span) -> io::Result<()> {
        // An error of the read is left to the collapse, which reports it.
        let _ = self.touch(range);
        while_busy(COLLAPSE_TRIES, || {
            self.advise(range, super::region::MADV_COLLAPSE)
        })
    }

    fn advise(&self, range: Span, advice: libc::c_int) -> io::Result<()> {
        let (start, len) = self.part(range)?;
        // SAFETY: the range lies inside the mapping owned by self; none of the advices used here
        // changes content or protection.
        match unsafe { libc::madvise(start, len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Keeps every page of the mapping in memory until it is dropped (mlock).
    pub fn lock(&self) -> io::Result<()> {
        let (start, len) = self.part(self.range)?;
        // SAFETY: the range is the mapping owned by self.
        unsafe { rustix::mm::mlock(start, len) }.map_err(io::Error::from)
    }

    /// For each page of `range`, whether the page cache holds it (mincore). The kernel answers only
    /// users who own the file or may write it. It tells other users that all pages are held
    /// (mm/mincore.c, can_do_mincore()).
    pub fn resident(&self, range: Span) -> io::Result<Vec<bool>> {
        let page = rustix::param::page_size();
        let (start, len) = self.part(range)?;
        let mut map = vec![0u8; len.div_ceil(page)];
        // SAFETY: the range lies inside the mapping owned by self, and the vector has one byte per
        // page.
        match unsafe { libc::mincore(start, len, map.as_mut_ptr()) } {
            0 => Ok(map.into_iter().map(|byte| byte & 1 != 0).collect()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
