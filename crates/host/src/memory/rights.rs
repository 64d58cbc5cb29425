//! Written memory in folios of a chosen size, and changes of its access rights. The time of a
//! change tells whether a kernel changes the rights of a large folio's pages in one batch
//! (mm/mprotect.c, Linux 6.17).

use std::fs;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use hugetext_leaf::{Leaf, Perms};

use super::region::{Advice, Region};

const READ: Perms = Perms {
    read: true,
    write: false,
    exec: false,
};
const READ_WRITE: Perms = Perms {
    write: true,
    ..READ
};

/// Private memory whose pages were all written. It starts at a multiple of the PMD leaf; all
/// lengths are in bytes.
#[derive(Debug)]
pub struct Written {
    region: Region,
    page: Leaf,
    pmd: Leaf,
}

impl Written {
    /// In base pages.
    pub fn in_base_pages(len: usize, page: Leaf, pmd: Leaf) -> io::Result<Written> {
        let memory = Written::nothing(len, page, pmd)?;
        memory.region.advise(Advice::NoHugePage)?;
        memory.write()
    }

    /// In huge pages, as far as the kernel makes them.
    pub fn in_huge_pages(len: usize, page: Leaf, pmd: Leaf) -> io::Result<Written> {
        let memory = Written::nothing(len, page, pmd)?;
        memory.region.advise(Advice::HugePage)?;
        memory.write()
    }

    /// In folios of `block`, smaller than the PMD leaf, as far as the kernel makes them (Linux 6.8,
    /// if [`anonymous_folios`] is not `never`). A mapping that ends before the window does cannot
    /// hold a huge page, so the last block of each window is left unmapped until the others are
    /// written.
    pub fn in_folios(len: usize, block: Leaf, page: Leaf, pmd: Leaf) -> io::Result<Written> {
        let memory = Written::nothing(len, page, pmd)?;
        let (window, block) = (pmd.bytes() as usize, block.bytes() as usize);
        let kept_out = || (window..=len).step_by(window).map(|end| end - block..end);
        memory.region.advise(Advice::HugePage)?;
        for last in kept_out() {
            memory.region.advise_part(last, Advice::NoHugePage)?;
        }
        for last in kept_out() {
            memory.dirty(last.end - window..last.start);
        }
        // One mapping again. Its windows are partly filled, so no huge page fits.
        memory.region.advise(Advice::HugePage)?;
        memory.write()
    }

    /// Not written but read: a file mapped privately, with the folios of its page cache.
    pub fn of_file(region: Region, page: Leaf, pmd: Leaf) -> Written {
        region.touch(page.bytes() as usize);
        Written { region, page, pmd }
    }

    fn nothing(len: usize, page: Leaf, pmd: Leaf) -> io::Result<Written> {
        let region = Region::anonymous(len, pmd)?;
        Ok(Written { region, page, pmd })
    }

    fn write(self) -> io::Result<Written> {
        self.dirty(0..self.len());
        Ok(self)
    }

    fn dirty(&self, part: Range<usize>) {
        self.region.dirty_part(part, self.page.bytes() as usize);
    }

    /// The addresses.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Makes PTEs map the huge pages: changing the rights of one page splits the leaf but not the
    /// folio.
    pub fn split_leaves(&self) -> io::Result<()> {
        let page = self.page.bytes() as usize;
        for window in (0..self.len()).step_by(self.pmd.bytes() as usize) {
            self.region.protect(window, page, READ)?;
            self.region.protect(window, page, READ_WRITE)?;
        }
        Ok(())
    }

    /// The time that `times` changes of all of it, to read-only and back, take.
    pub fn toggle(&self, times: u32) -> io::Result<Duration> {
        let start = Instant::now();
        for _ in 0..times {
            self.region.protect(0, self.len(), READ)?;
            self.region.protect(0, self.len(), READ_WRITE)?;
        }
        Ok(start.elapsed())
    }

    fn len(&self) -> usize {
        self.region.span().len() as usize
    }
}

/// The setting of anonymous memory for folios of `size`: the selected word of
/// /sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled; `None` if that file is missing.
pub fn anonymous_folios(size: Leaf) -> Option<String> {
    let kilobytes = size.bytes() >> 10;
    let path = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kilobytes}kB/enabled");
    let text = fs::read_to_string(path).ok()?;
    Some(text.split(['[', ']']).nth(1)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Leaf = Leaf::K4;
    const WINDOW: Leaf = Leaf::M2;

    #[test]
    fn every_kind_is_written_and_can_be_toggled() {
        let len = 2 * WINDOW.bytes() as usize;
        for memory in [
            Written::in_base_pages(len, PAGE, WINDOW),
            Written::in_huge_pages(len, PAGE, WINDOW),
            Written::in_folios(len, Leaf::K64, PAGE, WINDOW),
        ] {
            let memory = memory.unwrap();
            assert!(WINDOW.is_aligned(memory.region().span().start));
            memory.split_leaves().unwrap();
            memory.toggle(2).unwrap();
            memory.dirty(0..len);
        }
    }
}
