//! The decisions of the kernel series on reading and alignment, equal to those of its C headers.
//!
//! `kernel/order` decides what a fault on text reads into the page cache. `kernel/align` decides
//! the alignment at which a program is loaded. A test compiles those headers and compares them with
//! this module over many inputs, so a change on one side alone fails.

use crate::bias::Bias;
use crate::geometry::Leaf;
use crate::reach::windows_in_file;
use crate::segment::Segment;

/// A leaf may be at most this many times the readahead of the device: 2 MiB with Linux's 128 KiB.
const RA_FACTOR: u64 = 16;
/// A leaf may be at most 1/64 of the available memory.
const MEMORY_SHIFT: u32 = 6;
/// The same bound is 1/512 if the page that faulted was evicted a short time ago.
const REFAULT_SHIFT: u32 = 9;

/// A fault on executable memory that missed the page cache. Numbers count base pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecFault {
    /// The page of the file that faulted, from `start` to below `end`.
    pub index: u64,
    /// The first page of the file that the mapping holds.
    pub start: u64,
    /// One past the last page of the file that the mapping holds.
    pub end: u64,
    /// Pages of the file, including a partial last one.
    pub file_pages: u64,
    /// Page number of an address minus the page of the file that is mapped there, modulo 2^64.
    pub skew: u64,
    /// Readahead setting of the device, at least 1.
    pub ra_pages: u64,
    /// Pages that are free or cheap to reclaim.
    pub avail_pages: u64,
    /// The largest folio order of the page cache of the file.
    pub max_order: u32,
    /// The largest order of an aligned window around `index` without a page in the page cache.
    pub free_order: u32,
    /// The order of the PMD; 0 if PMDs must not map text.
    pub pmd_order: u32,
    /// The order of the contpte block; 0 if the architecture has none.
    pub cont_order: u32,
    /// The order that the architecture always asks for.
    pub base_order: u32,
    /// Whether the page was evicted a short time ago.
    pub refault: bool,
}

/// The range to read, in base pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecRead {
    /// First page.
    pub start: u64,
    /// Number of pages.
    pub size: u64,
    /// Order of the folios.
    pub order: u32,
}

impl ExecFault {
    /// The range to read. The folios are of the largest leaf that mapping, file, device and memory
    /// allow, or else of the architecture's order. The range begins at the start of the folio and
    /// ends where the device's readahead ends, inside the mapping and before any window that can be
    /// a larger leaf.
    pub fn read(&self) -> ExecRead {
        let order = self.order();
        let start = window(self.index, order).max(self.start);
        let liked = start
            .saturating_add(self.ra_pages)
            .next_multiple_of(1 << order);
        let next_leaf = |leaf: u32| window(self.index, leaf) + (1 << leaf);
        let end = [self.pmd_order, self.cont_order]
            .into_iter()
            .filter(|leaf| *leaf > order && self.fits(next_leaf(*leaf), *leaf))
            .map(next_leaf)
            .chain([liked, self.end])
            .min()
            .unwrap_or(self.end);
        ExecRead {
            start,
            size: end.saturating_sub(start),
            order,
        }
    }

    fn order(&self) -> u32 {
        [self.pmd_order, self.cont_order]
            .into_iter()
            .find(|order| *order <= self.free_order && self.fits(self.index, *order))
            .unwrap_or(self.base_order)
    }

    /// Whether a leaf could map the window of `order` around `index`.
    fn fits(&self, index: u64, order: u32) -> bool {
        let pages = 1u64 << order;
        let first = window(index, order);
        let shift = if self.refault {
            REFAULT_SHIFT
        } else {
            MEMORY_SHIFT
        };
        let congruent = self.skew.is_multiple_of(pages);
        let whole = self.start <= first && first + pages <= self.end.min(self.file_pages);
        let welcome =
            pages / RA_FACTOR <= self.ra_pages && pages <= self.avail_pages.unbounded_shr(shift);
        (self.base_order + 1..=self.max_order).contains(&order) && congruent && whole && welcome
    }
}

/// The first page of the window of `order` around a page.
fn window(page: u64, order: u32) -> u64 {
    page >> order << order
}

/// The leaf to which the load bias of an ET_DYN image is aligned: the first of `leaves` (largest
/// first) for which some read-only PT_LOAD can hold a whole window. Each segment counts alone. A
/// neighbour that the kernel merges with it is not considered.
pub fn load_leaf(segments: &[Segment], page: Leaf, leaves: &[Leaf]) -> Option<Leaf> {
    let gains = |leaf: &&Leaf| {
        segments.iter().any(|segment| {
            !windows_in_file(&[*segment], page, **leaf, Bias::aligned(**leaf)).is_empty()
        })
    };
    leaves.iter().find(gains).copied()
}
