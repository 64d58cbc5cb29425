//! Finds the leaves and folios by which a process maps its pages.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use hugetext_leaf::{Leaf, Span};
use rustix::ioctl::{Opcode, opcode};
use schemars::JsonSchema;
use serde::Serialize;

/// Why the page map of a process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageMapError {
    /// Page frame numbers need CAP_SYS_ADMIN (Documentation/admin-guide/mm/pagemap.rst).
    #[error("folio sizes need root (CAP_SYS_ADMIN): page frame numbers are hidden")]
    Hidden,
    /// The files cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// struct page_region of the PAGEMAP_SCAN ioctl (include/uapi/linux/fs.h).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// struct pm_scan_arg of the PAGEMAP_SCAN ioctl (include/uapi/linux/fs.h).
#[repr(C)]
#[derive(Debug, Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_HUGE: u64 = 1 << 6;
/// _IOWR('f', 16, struct pm_scan_arg), whose bits lie elsewhere on some architectures.
const PAGEMAP_SCAN: Opcode = opcode::read_write::<ScanArguments>(b'f', 16);
const REGIONS: usize = 512;

/// The pages that PAGEMAP_SCAN looks for. Each field is a set of PAGE_IS_ bits.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// The pages are in all of these categories,
    all: u64,
    /// in none of these,
    none: u64,
    /// and in at least one of these, if any is given.
    any: u64,
}

/// The parts of `addresses` that the process behind `pagemap` (its /proc/PID/pagemap) maps by PMD
/// leaves (PAGEMAP_SCAN, Linux 6.7). Needs no privilege beyond opening the file.
pub fn huge_spans(pagemap: &File, addresses: Span) -> io::Result<Vec<Span>> {
    let wanted = Wanted {
        all: PAGE_IS_PRESENT | PAGE_IS_HUGE,
        none: 0,
        any: 0,
    };
    scan(pagemap, addresses, wanted)
}

fn scan(pagemap: &File, addresses: Span, wanted: Wanted) -> io::Result<Vec<Span>> {
    let mut spans = Vec::new();
    let mut at = addresses.start;
    while at < addresses.end {
        let mut regions = [PageRegion::default(); REGIONS];
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: at,
            end: addresses.end,
            regions: regions.as_mut_ptr() as u64,
            regions_len: REGIONS as u64,
            category_inverted: wanted.none,
            category_mask: wanted.all | wanted.none,
            category_anyof_mask: wanted.any,
            // A category that all found pages have, so that neighbours are one region.
            return_mask: wanted.all | wanted.none,
            ..ScanArguments::default()
        };
        // SAFETY: the argument block and the region array it points to have the kernel's layout
        // and outlive the call; regions_len is the array's length.
        let found = unsafe {
            libc::ioctl(
                pagemap.as_raw_fd(),
                PAGEMAP_SCAN as _,
                std::ptr::from_mut(&mut arguments),
            )
        };
        let found = usize::try_from(found).map_err(|_| scan_error(io::Error::last_os_error()))?;
        spans.extend(
            regions
                .iter()
                .take(found)
                .map(|region| Span::new(region.start, region.end)),
        );
        if arguments.walk_end <= at {
            break;
        }
        at = arguments.walk_end;
    }
    Ok(spans)
}

/// An error of PAGEMAP_SCAN, with ENOTTY for a request that is not known. Kernels before 6.7 say so; QEMU's
/// user mode says ENOSYS.
fn scan_error(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => io::Error::from_raw_os_error(libc::ENOTTY),
        _ => error,
    }
}

/// Bytes of `addresses` in the page tables of the process behind `pagemap`. Needs no privilege
/// beyond opening the file.
pub fn present_bytes(pagemap: &File, addresses: Span) -> io::Result<u64> {
    let page = rustix::param::page_size() as u64;
    let entries = read_words(pagemap, addresses.start / page, addresses.len() / page)?;
    let present = entries.iter().filter(|entry| **entry & PRESENT != 0);
    Ok(present.count() as u64 * page)
}

const FILE_OR_SHARED: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;

/// The pages of `addresses`, private file mappings, that the process no longer shares with the
/// file: it wrote to each, which became anonymous (bit 61 of the page map is clear for a page that
/// is present or swapped out; Documentation/admin-guide/mm/pagemap.rst).
pub fn changed_pages(pagemap: &File, addresses: Span) -> io::Result<Vec<Span>> {
    let wanted = Wanted {
        all: 0,
        none: PAGE_IS_FILE,
        any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
    };
    match scan(pagemap, addresses, wanted) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            changed_pages_one_by_one(pagemap, addresses)
        }
        outcome => outcome,
    }
}

/// For kernels before PAGEMAP_SCAN.
fn changed_pages_one_by_one(pagemap: &File, addresses: Span) -> io::Result<Vec<Span>> {
    let page = rustix::param::page_size() as u64;
    let entries = read_words(pagemap, addresses.start / page, addresses.len() / page)?;
    let changed = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| **entry & (PRESENT | SWAPPED) != 0 && **entry & FILE_OR_SHARED == 0);
    Ok(changed
        .map(|(index, _)| addresses.start + index as u64 * page)
        .map(|start| Span::new(start, start + page))
        .collect())
}

/// The parts of `addresses`, a mapping of this process, that are mapped from folios of at least `leaf`.
pub(crate) fn leaf_spans(addresses: Span, leaf: Leaf) -> io::Result<Vec<Span>> {
    let pmd = crate::machine::pmd_leaf();
    let pagemap = File::open("/proc/self/pagemap")?;
    if pmd == Some(leaf) {
        return match huge_spans(&pagemap, addresses) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => from_smaps(addresses, leaf),
            other => other,
        };
    }
    let pages = match folios(&pagemap, addresses) {
        Ok(pages) => pages,
        Err(PageMapError::Hidden) => return Err(io::ErrorKind::PermissionDenied.into()),
        Err(PageMapError::Io(error)) => return Err(error),
    };
    Ok(pages
        .into_iter()
        .filter(|page| page.folio() >= leaf.bytes())
        .map(|page| page.addresses)
        .collect())
}

/// Kernels before PAGEMAP_SCAN give only the sum in smaps. It decides if all windows or none are
/// huge, which is the usual case; otherwise the windows are asked one by one.
fn from_smaps(addresses: Span, leaf: Leaf) -> io::Result<Vec<Span>> {
    let maps = crate::processes::own_smaps()?;
    let bytes: u64 = maps
        .iter()
        .filter(|(span, _)| addresses.overlaps(span))
        .map(|(_, pmd_bytes)| pmd_bytes)
        .sum();
    if bytes >= addresses.len() {
        return Ok(vec![addresses]);
    }
    if bytes == 0 || addresses.len() <= leaf.bytes() {
        return Ok(Vec::new());
    }
    // Kernels before 6.7: the first page of a PMD-mapped window has its frame aligned to the leaf
    // and marked as THP in kpageflags, which root can read. Without root, count from the front.
    let folios = folios(&File::open("/proc/self/pagemap")?, addresses);
    match folios {
        Ok(pages) => Ok(pages
            .into_iter()
            .filter(|page| page.folio() >= leaf.bytes())
            .map(|page| page.addresses)
            .collect()),
        Err(_) => Ok(vec![Span::new(addresses.start, addresses.start + bytes)]),
    }
}

/// A present page, with its folio.
struct MappedPage {
    addresses: Span,
    /// The frames of the folio; one frame if the folio is not large.
    frames: Span,
}

impl MappedPage {
    /// Bytes of the folio.
    fn folio(&self) -> u64 {
        self.frames.len() * self.addresses.len()
    }
}

/// Bytes of a range, by the size of the folios that map them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct FolioBytes {
    /// From folios of PMD order or above.
    pub pmd: u64,
    /// From smaller folios that fill and align to a contpte block, if the architecture has one.
    pub contpte: u64,
    /// From other folios above the base page.
    pub large: u64,
    /// From single base pages.
    pub base: u64,
}

/// Sums the present pages of `addresses` by folio size. Needs CAP_SYS_ADMIN.
pub fn folio_bytes(
    pagemap: &File,
    addresses: Span,
    pmd: Option<Leaf>,
    contpte: Option<Leaf>,
) -> Result<FolioBytes, PageMapError> {
    let mut sum = FolioBytes::default();
    let at_least = |folio: u64, leaf: Option<Leaf>| leaf.is_some_and(|leaf| folio >= leaf.bytes());
    for page in folios(pagemap, addresses)? {
        let (bytes, folio) = (page.addresses.len(), page.folio());
        let bucket = if at_least(folio, pmd) {
            &mut sum.pmd
        } else if at_least(folio, contpte) {
            &mut sum.contpte
        } else if folio > bytes {
            &mut sum.large
        } else {
            &mut sum.base
        };
        *bucket += bytes;
    }
    Ok(sum)
}

/// The present pages of `addresses`, each with the size of its folio in bytes. Needs
/// CAP_SYS_ADMIN.
pub fn folio_sizes(pagemap: &File, addresses: Span) -> Result<Vec<(Span, u64)>, PageMapError> {
    let pages = folios(pagemap, addresses)?;
    Ok(pages
        .into_iter()
        .map(|page| (page.addresses, page.folio()))
        .collect())
}

/// The folios that hold the present pages of `addresses`, and the number of these pages. Needs CAP_SYS_ADMIN.
pub fn folio_count(pagemap: &File, addresses: Span) -> Result<FolioCount, PageMapError> {
    let found = folios(pagemap, addresses)?;
    let pages = found.len() as u64;
    let mut frames: Vec<Span> = found.into_iter().map(|page| page.frames).collect();
    frames.dedup();
    Ok(FolioCount {
        pages,
        folios: frames.len() as u64,
    })
}

/// Folios, and their pages that are mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FolioCount {
    /// Pages that are mapped.
    pub pages: u64,
    /// The folios that hold them.
    pub folios: u64,
}

const PFN_MASK: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;
const KPF_COMPOUND_HEAD: u64 = 1 << 15;
const KPF_COMPOUND_TAIL: u64 = 1 << 16;

/// The present pages of `addresses`, each with the size of its folio: the run of compound tails
/// around its frame in /proc/kpageflags.
fn folios(pagemap: &File, addresses: Span) -> Result<Vec<MappedPage>, PageMapError> {
    let page = rustix::param::page_size() as u64;
    let entries = read_words(pagemap, addresses.start / page, addresses.len() / page)?;
    let frames = entries
        .iter()
        .map(|entry| (entry & PRESENT != 0).then_some(entry & PFN_MASK));
    let frames: Vec<Option<u64>> = frames.collect();
    if frames.iter().flatten().next().is_some() && frames.iter().flatten().all(|pfn| *pfn == 0) {
        return Err(PageMapError::Hidden);
    }
    let flags = File::open("/proc/kpageflags").map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => PageMapError::Hidden,
        _ => PageMapError::Io(error),
    })?;
    let mut known: Option<Span> = None;
    let mut pages = Vec::new();
    for (index, frame) in frames.into_iter().enumerate() {
        let Some(frame) = frame else { continue };
        let folio = match known {
            Some(folio) if folio.contains(frame) => folio,
            _ => folio_around(&flags, frame)?,
        };
        known = Some(folio);
        let start = addresses.start + index as u64 * page;
        pages.push(MappedPage {
            addresses: Span::new(start, start + page),
            frames: folio,
        });
    }
    Ok(pages)
}

/// Largest folio looked for, in pages: order 13 (PMD of 64 KiB pages).
const MAX_FOLIO_PAGES: u64 = 1 << 13;

/// The frames of the folio that holds `frame`. Folios are naturally aligned, so the head is the
/// frame number rounded down to the folio's size, and tails follow it.
fn folio_around(flags: &File, frame: u64) -> Result<Span, PageMapError> {
    let own = read_words(flags, frame, 1)?.first().copied().unwrap_or(0);
    if own & (KPF_COMPOUND_HEAD | KPF_COMPOUND_TAIL) == 0 {
        return Ok(Span::new(frame, frame + 1));
    }
    let mut head = frame;
    let mut size = 1;
    while own & KPF_COMPOUND_TAIL != 0 && size <= MAX_FOLIO_PAGES {
        size *= 2;
        head = frame - frame % size;
        let word = read_words(flags, head, 1)?.first().copied().unwrap_or(0);
        if word & KPF_COMPOUND_HEAD != 0 {
            break;
        }
    }
    // Most folios are small: the range read grows step by step instead of beginning at the largest
    // order.
    let (mut tails, mut step) = (0, 16);
    while tails < MAX_FOLIO_PAGES {
        let words = read_words(flags, head + 1 + tails, step)?;
        let run = words
            .iter()
            .take_while(|word| **word & KPF_COMPOUND_TAIL != 0)
            .count() as u64;
        tails += run;
        if run < step {
            break;
        }
        step *= 2;
    }
    Ok(Span::new(head, head + 1 + tails))
}

/// Reads `count` 64-bit words from index `first`; fewer at the end of the file.
fn read_words(file: &File, first: u64, count: u64) -> io::Result<Vec<u64>> {
    let bytes =
        usize::try_from(count.saturating_mul(8)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut buffer = vec![0u8; bytes];
    let mut filled = 0;
    while filled < bytes {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        match file.read_at(rest, first.saturating_mul(8).saturating_add(filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    let (words, _) = buffer.as_chunks::<8>();
    let words = words.iter().take(filled / 8);
    Ok(words.map(|word| u64::from_ne_bytes(*word)).collect())
}
