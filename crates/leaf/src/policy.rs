//! The decisions of the kernel series on reading and alignment, equal to those of its C headers.
//!
//! `kernel/order` decides what a fault on text reads into the page cache. `kernel/align` decides
//! the alignment at which a program is loaded. A test compiles those headers and compares them with
//! this module over many inputs, so a change on one side alone fails.

use crate::bias::Bias;
use crate::geometry::Leaf;
use crate::reach::windows_in_file;
use crate::segment::Segment;

/// No leaf is tried where a read of the readahead of the device makes a fault wait longer than this.
const LEAF_WAIT_NS: u64 = 16_000_000;
/// Leaves that are read may be at most 1/64 of the available memory.
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
    /// Nanoseconds, below 2^32, that a fault waits for each page of a read of today; 0 if not known.
    pub page_ns: u64,
    /// Pages that are free or cheap to reclaim, on the node and for the memory cgroup.
    pub avail_pages: u64,
    /// The largest order of an aligned window around `index` without a page in the page cache.
    pub free_order: u32,
    /// The order of the PMD; 0 if PMDs must not map this text, or its page cache has no such folios.
    pub pmd_order: u32,
    /// The order of the contpte block; 0 in the same cases, and if the architecture has none.
    pub cont_order: u32,
    /// The order that the architecture always asks for.
    pub base_order: u32,
    /// How many faults from now a leaf of the device is tried, because leaves take too long; else 0.
    pub pause: u32,
    /// Whether the page was evicted a short time ago.
    pub refault: bool,
    /// Whether the process said that it accesses the memory at random.
    pub random: bool,
    /// Whether the kernel lets tasks of this cgroup wait for the device.
    pub congested: bool,
}

/// Why a fault does not read the largest leaf. The numbers are those of the kernel's `exec_limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecLimit {
    /// It does.
    None,
    /// No leaf is larger than what is read anyway.
    Leaf,
    /// Address and offset differ, or mapping or file do not hold the whole window.
    Shape,
    /// The device is too slow or congested, its speed is not known, or access is at random.
    Device,
    /// The leaf is too large a part of the available memory.
    Memory,
    /// Pages of the window are in the page cache.
    Cached,
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
    /// Why they are not the largest leaf.
    pub limit: ExecLimit,
}

impl ExecFault {
    /// The range to read. The folios are of the largest leaf that mapping, file, device and memory
    /// allow, or else of the architecture's order. The range begins at the start of the folio, is
    /// as long as the device's readahead, but a folio at least, and ends inside the mapping and
    /// before any window that can be a larger leaf. Leaves are read whole or not at all.
    pub fn read(&self) -> ExecRead {
        let (order, limit) = self.order();
        let start = window(self.index, order).max(self.start);
        let liked = start
            .saturating_add(self.wanted(order))
            .next_multiple_of(1 << order);
        let next_leaf = |leaf: u32| window(self.index, leaf) + (1 << leaf);
        let end = [self.pmd_order, self.cont_order]
            .into_iter()
            .filter(|leaf| *leaf > order && self.limit(next_leaf(*leaf), *leaf) == ExecLimit::None)
            .map(next_leaf)
            .chain([liked, self.end])
            .min()
            .unwrap_or(self.end);
        let end = if order > self.base_order {
            window(end.min(self.file_pages), order)
        } else {
            end
        };
        ExecRead {
            start,
            size: end.saturating_sub(start),
            order,
            limit,
        }
    }

    /// How many pages to read if nothing stops before: leaves as the device's readahead and memory
    /// hold, but one at least, and other folios as today.
    fn wanted(&self, order: u32) -> u64 {
        if order <= self.base_order {
            return self.ra_pages;
        }
        let most = self.ra_pages.min(self.memory_pages());
        window(most, order).max(1 << order)
    }

    /// The largest part of the available memory that one read of leaves may take.
    fn memory_pages(&self) -> u64 {
        self.avail_pages.unbounded_shr(if self.refault {
            REFAULT_SHIFT
        } else {
            MEMORY_SHIFT
        })
    }

    /// The order to read, and why it is not that of the largest leaf.
    fn order(&self) -> (u32, ExecLimit) {
        let limit = |order| match self.limit(self.index, order) {
            ExecLimit::None if self.pause > 0 && 1 << order > self.ra_pages => ExecLimit::Device,
            ExecLimit::None if order > self.free_order => ExecLimit::Cached,
            limit => limit,
        };
        match (limit(self.pmd_order), limit(self.cont_order)) {
            (ExecLimit::None, _) => (self.pmd_order, ExecLimit::None),
            (ExecLimit::Leaf, ExecLimit::None) => (self.cont_order, ExecLimit::None),
            (ExecLimit::Leaf, cont) => (self.base_order, cont),
            (pmd, ExecLimit::None) => (self.cont_order, pmd),
            (pmd, _) => (self.base_order, pmd),
        }
    }

    /// Why no leaf can map the window of `order` around a page of which nothing is cached.
    fn limit(&self, index: u64, order: u32) -> ExecLimit {
        let pages = 1u64 << order;
        let first = window(index, order);
        let congruent = self.skew.is_multiple_of(pages);
        let whole = self.start <= first && first + pages <= self.end.min(self.file_pages);
        if order <= self.base_order {
            ExecLimit::Leaf
        } else if !congruent || !whole {
            ExecLimit::Shape
        } else if self.slow(pages) {
            ExecLimit::Device
        } else if pages > self.memory_pages() {
            ExecLimit::Memory
        } else {
            ExecLimit::None
        }
    }

    /// Whether the fault should not wait for as many pages as a leaf has.
    fn slow(&self, pages: u64) -> bool {
        let fast = 1..=LEAF_WAIT_NS;
        let today = self.page_ns.saturating_mul(self.ra_pages);
        let held_up = self.random || self.congested || self.pause > 1;
        pages > self.ra_pages && (held_up || !fast.contains(&today))
    }
}

/// The first page of the window of `order` around a page.
fn window(page: u64, order: u32) -> u64 {
    page >> order << order
}

/// The leaf to which the load bias of an ET_DYN image is aligned: the first of `leaves` (largest
/// first) of which some executable PT_LOAD that is not writable can hold a whole window. Each segment
/// counts alone. A neighbour that the kernel merges with it is not considered.
pub fn load_leaf(segments: &[Segment], page: Leaf, leaves: &[Leaf]) -> Option<Leaf> {
    let gains = |leaf: &&Leaf| {
        segments.iter().filter(|s| s.perms.exec).any(|segment| {
            !windows_in_file(&[*segment], page, **leaf, Bias::aligned(**leaf)).is_empty()
        })
    };
    leaves.iter().find(gains).copied()
}
