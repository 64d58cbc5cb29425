//! An owned span of this process's addresses that a probe can map, advise, touch and protect.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use hugetext_leaf::{Leaf, Perms, Span};

use super::pagemap::huge_spans;
use crate::processes::own_smaps;

/// The value of every architecture (include/uapi/asm-generic/mman-common.h); libc lacks it for
/// musl.
pub(crate) const MADV_COLLAPSE: c_int = 25;

/// Advice to the kernel about memory (madvise(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// MADV_HUGEPAGE: faults may read and allocate folios of PMD order.
    HugePage,
    /// MADV_NOHUGEPAGE: faults take base pages.
    NoHugePage,
    /// MADV_COLLAPSE: make PMD-order folios of the mapped pages now (Linux 6.1).
    Collapse,
    /// MADV_PAGEOUT: reclaim the pages (Linux 5.4).
    PageOut,
}

impl Advice {
    fn value(self) -> c_int {
        match self {
            Advice::HugePage => libc::MADV_HUGEPAGE,
            Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
            Advice::Collapse => MADV_COLLAPSE,
            Advice::PageOut => libc::MADV_PAGEOUT,
        }
    }
}

/// A private mapping that this value alone owns; unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    start: NonNull<c_void>,
    len: usize,
}

impl Region {
    /// Maps `len` bytes of `file` from `offset`, both multiples of the base page, privately, so
    /// that address and offset are congruent modulo `align`. The file must not shrink while the
    /// region is touched (SIGBUS otherwise).
    pub fn of_file(
        file: impl AsFd,
        offset: u64,
        len: usize,
        align: Leaf,
        perms: Perms,
    ) -> io::Result<Region> {
        let place = (align, align.offset_in(offset));
        Region::of_file_with(file, offset, len, place, perms, libc::MAP_PRIVATE)
    }

    /// Maps the first `len` bytes of `file` privately at an address ≡ `residue` (mod `align`), a
    /// multiple of the base page.
    pub(crate) fn of_file_at(
        file: impl AsFd,
        len: usize,
        align: Leaf,
        residue: u64,
        perms: Perms,
    ) -> io::Result<Region> {
        let place = (align, residue);
        Region::of_file_with(file, 0, len, place, perms, libc::MAP_PRIVATE)
    }

    /// As [`Region::of_file`], shared: it shows the page cache itself.
    pub(crate) fn of_shared_file(
        file: impl AsFd,
        offset: u64,
        len: usize,
        align: Leaf,
        perms: Perms,
    ) -> io::Result<Region> {
        let place = (align, align.offset_in(offset));
        Region::of_file_with(file, offset, len, place, perms, libc::MAP_SHARED)
    }

    fn of_file_with(
        file: impl AsFd,
        offset: u64,
        len: usize,
        (align, residue): (Leaf, u64),
        perms: Perms,
        flags: c_int,
    ) -> io::Result<Region> {
        let region = Region::reserve(len, align, residue)?;
        let offset = libc::off64_t::try_from(offset).map_err(io::Error::other)?;
        region.map_over(perms, flags, Some((file.as_fd(), offset)))?;
        Ok(region)
    }

    /// Maps `len` bytes of zeroed, readable and writable memory at a multiple of `align`.
    pub fn anonymous(len: usize, align: Leaf) -> io::Result<Region> {
        let region = Region::reserve(len, align, 0)?;
        let perms = Perms {
            read: true,
            write: true,
            exec: false,
        };
        region.map_over(perms, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)?;
        Ok(region)
    }

    /// The addresses.
    pub fn span(&self) -> Span {
        let start = self.start.as_ptr() as u64;
        Span::new(start, start.saturating_add(self.len as u64))
    }

    /// Advises the whole region.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the span is owned by this region; no advice changes the content that is read.
        check(unsafe { libc::madvise(self.start.as_ptr(), self.len, advice.value()) })
    }

    /// Advises a part, whose ends are multiples of the base page.
    pub(crate) fn advise_part(&self, part: Range<usize>, advice: Advice) -> io::Result<()> {
        let part = self.part(part.start as u64, part.len() as u64);
        let (start, len) = part.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: as above; the part lies inside the region.
        check(unsafe { libc::madvise(start, len, advice.value()) })
    }

    /// Sets the access rights of `len` bytes from `offset` into the region. Access without the
    /// right raises SIGSEGV, so the caller restores the rights before it touches them.
    pub fn protect(&self, offset: usize, len: usize, perms: Perms) -> io::Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: offset is inside the region, as checked above; no reference into it is ever made.
        check(unsafe { libc::mprotect(self.start.as_ptr().byte_add(offset), len, prot(perms)) })
    }

    /// Reads one byte of every `step` bytes, so that each such page is mapped.
    pub fn touch(&self, step: usize) {
        for offset in (0..self.len).step_by(step.max(1)) {
            // SAFETY: offset is inside the region, which is mapped readable.
            unsafe { self.start.cast::<u8>().byte_add(offset).read_volatile() };
        }
    }

    /// Bytes of the region that PMD leaves map.
    pub fn pmd_mapped(&self) -> io::Result<u64> {
        match huge_spans(&File::open("/proc/self/pagemap")?, self.span()) {
            Ok(spans) => Ok(spans.iter().map(Span::len).sum()),
            // Before PAGEMAP_SCAN (Linux 6.7).
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                let maps = own_smaps()?;
                let own = maps.iter().filter(|(span, _)| self.span().overlaps(span));
                Ok(own.map(|(_, huge)| huge).sum())
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a nonzero byte into every `step` bytes; the region must be writable.
    pub fn dirty(&self, step: usize) {
        self.dirty_part(0..self.len, step);
    }

    /// As [`Region::dirty`], for the bytes of a part.
    pub(crate) fn dirty_part(&self, part: Range<usize>, step: usize) {
        for offset in (part.start..part.end.min(self.len)).step_by(step.max(1)) {
            // SAFETY: offset is inside the region; no reference into it is ever made.
            unsafe { self.start.cast::<u8>().byte_add(offset).write_volatile(1) };
        }
    }

    /// Start and length of `len` bytes from `offset` into the region, for a system call; `None` if
    /// they do not lie inside.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Option<(*mut c_void, usize)> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: offset is inside the region or at its end.
        inside.then(|| (unsafe { self.start.as_ptr().byte_add(offset) }, len))
    }

    /// Addresses ≡ `residue` (mod `align`) that no other mapping uses: reserves `align` bytes more
    /// and returns the rest.
    fn reserve(len: usize, align: Leaf, residue: u64) -> io::Result<Region> {
        if len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let slack = usize::try_from(align.bytes()).map_err(io::Error::other)?;
        let whole = len.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let head = align.offset_in(residue.wrapping_sub(base as u64)) as usize;
        // SAFETY: head < slack, so both cut-offs lie inside the reservation made above.
        unsafe {
            let start = base.byte_add(head);
            if head > 0 {
                libc::munmap(base, head);
            }
            if slack > head {
                libc::munmap(start.byte_add(len), slack - head);
            }
            Ok(Region {
                start: NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?,
                len,
            })
        }
    }

    fn map_over(
        &self,
        perms: Perms,
        flags: c_int,
        file: Option<(BorrowedFd<'_>, libc::off64_t)>,
    ) -> io::Result<()> {
        let (fd, offset) = file.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        // SAFETY: MAP_FIXED replaces exactly the reservation that this region owns.
        let at = unsafe {
            libc::mmap64(
                self.start.as_ptr(),
                self.len,
                prot(perms),
                flags | libc::MAP_FIXED,
                fd,
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the span is owned by this region and no reference into it was ever given out.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

/// Repeats a call until its answer is not EAGAIN, at most `tries` times. The kernel returns EAGAIN
/// if a page is in use for a moment, by a fault or a fork of a busy program.
pub fn while_busy<T>(tries: u32, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..tries {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
    call()
}

/// process_madvise(2) over `spans` of the process behind `pidfd`; returns the bytes advised. Needs
/// CAP_SYS_NICE and the right to trace the process.
pub fn advise_process(pidfd: impl AsFd, spans: &[Span], advice: Advice) -> io::Result<u64> {
    let vectors: Vec<libc::iovec> = spans
        .iter()
        .map(|span| libc::iovec {
            iov_base: span.start as *mut c_void,
            iov_len: span.len() as usize,
        })
        .collect();
    // SAFETY: the kernel reads `vectors`, which lives across the call; the addresses belong to the
    // other process, whose memory keeps its contents under every advice defined here.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_fd().as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            advice.value(),
            0,
        )
    };
    u64::try_from(advised).map_err(|_| io::Error::last_os_error())
}

fn prot(perms: Perms) -> c_int {
    let bit = |on, bit| if on { bit } else { 0 };
    bit(perms.read, libc::PROT_READ)
        | bit(perms.write, libc::PROT_WRITE)
        | bit(perms.exec, libc::PROT_EXEC)
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_and_reads_as_the_file() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let perms = Perms {
            read: true,
            write: false,
            exec: true,
        };
        let region = Region::of_file(&file, 0, 1 << 16, Leaf::M2, perms).unwrap();
        assert!(Leaf::M2.is_aligned(region.span().start));
        region.touch(4096);
        assert!(region.protect(1 << 15, 1 << 16, perms).is_err());
    }

    #[test]
    fn nothing_is_mapped_for_no_bytes() {
        assert!(Region::anonymous(0, Leaf::K4).is_err());
    }
}
