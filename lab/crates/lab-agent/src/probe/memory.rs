//! How file mappings are mapped: smaps, the page map and the flags of the pages.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use hugetext_lab_agent::{Folios, HugePages};
use hugetext_leaf::{Leaf, Span};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use crate::init;

/// The leaf sizes of the running kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) page: Leaf,
    pub(super) pmd: Leaf,
    pub(super) contpte: Option<Leaf>,
}

impl Geometry {
    pub(super) fn of_this_kernel() -> io::Result<Geometry> {
        let hello = init::hello()?;
        let leaf = |bytes, what| Leaf::from_bytes(bytes).ok_or_else(|| io::Error::other(what));
        Ok(Geometry {
            page: leaf(hello.page, "the page size is not a power of two")?,
            pmd: leaf(hello.pmd, "the kernel has no transparent huge pages")?,
            contpte: Leaf::from_bytes(hello.contpte),
        })
    }

    /// The largest leaf that a file of this many bytes fills at least once.
    pub(super) fn leaf_for(&self, bytes: u64) -> Option<Leaf> {
        let leaves = std::iter::once(self.pmd).chain(self.contpte);
        leaves.into_iter().find(|leaf| leaf.bytes() <= bytes)
    }
}

/// Keeps khugepaged from copying a window during a timed run: it works once through its queue, and
/// then no more.
pub(super) fn quiet_khugepaged() -> io::Result<()> {
    let pause = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
    fs::write(pause, u32::MAX.to_string())
}

/// A file mapping of a process, from smaps.
#[derive(Debug, Clone)]
pub(super) struct MappedFile {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) offset: u64,
    pub(super) exec: bool,
    /// Bytes mapped by PMD leaves.
    pub(super) pmd: u64,
}

impl MappedFile {
    fn of(map: MemoryMap) -> Option<MappedFile> {
        let MMapPath::Path(path) = map.pathname else {
            return None;
        };
        let field = |name| map.extension.map.get(name).copied().unwrap_or(0);
        Some(MappedFile {
            path: path.to_string_lossy().into_owned(),
            span: Span::new(map.address.0, map.address.1),
            offset: map.offset,
            exec: map.perms.contains(MMPermissions::EXECUTE),
            pmd: field("FilePmdMapped") + field("ShmemPmdMapped"),
        })
    }

    /// Bytes of whole PMD windows inside the mapping, at its address.
    pub(super) fn windows(&self, pmd: Leaf) -> u64 {
        if !pmd.is_aligned(self.span.start.wrapping_sub(self.offset)) {
            return 0;
        }
        let end = pmd.align_down(self.span.end);
        end.saturating_sub(pmd.align_up(self.span.start))
    }
}

/// The file mappings of `process`.
pub(super) fn file_mappings(process: &Process) -> io::Result<Vec<MappedFile>> {
    let maps = process.smaps().map_err(io::Error::other)?;
    Ok(maps.into_iter().filter_map(MappedFile::of).collect())
}

/// How this process maps `span`, whose pages it has touched.
pub(super) fn own_huge_pages(span: Span, geometry: &Geometry) -> io::Result<(HugePages, Folios)> {
    let process = Process::myself().map_err(io::Error::other)?;
    let pmd = file_mappings(&process)?
        .iter()
        .filter(|mapping| mapping.span.overlaps(&span))
        .map(|mapping| mapping.pmd)
        .sum();
    let pages = Pages::of("self", span, geometry.page)?;
    let contpte = geometry.contpte.map_or(0, |leaf| pages.in_blocks(leaf));
    Ok((HugePages { pmd, contpte }, pages.folios()))
}

/// KPF_COMPOUND_HEAD and KPF_COMPOUND_TAIL (include/uapi/linux/kernel-page-flags.h).
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;

/// The pages of a span: number and flags of each, `None` if no page is mapped.
pub(super) struct Pages {
    start: u64,
    page: Leaf,
    pages: Vec<Option<(u64, u64)>>,
}

impl Pages {
    /// Reads the page map of process `pid` ("self" for this one); needs CAP_SYS_ADMIN.
    pub(super) fn of(pid: &str, span: Span, page: Leaf) -> io::Result<Pages> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let kpageflags = File::open("/proc/kpageflags")?;
        let count = (span.len() / page.bytes()) as usize;
        let mut raw = vec![0; count * 8];
        pagemap.read_exact_at(&mut raw, span.start / page.bytes() * 8)?;
        let mut pages = Vec::with_capacity(count);
        for entry in raw.chunks_exact(8) {
            // Bit 63: present; bits 0 to 54: the page frame number (Documentation/admin-guide/mm/
            // pagemap.rst).
            let entry = number(entry);
            pages.push(if entry >> 63 == 1 {
                let frame = entry & ((1 << 55) - 1);
                let mut flags = [0; 8];
                kpageflags.read_exact_at(&mut flags, frame * 8)?;
                Some((frame, u64::from_ne_bytes(flags)))
            } else {
                None
            });
        }
        Ok(Pages {
            start: span.start,
            page,
            pages,
        })
    }

    /// Bytes in aligned blocks of `leaf` that one folio holds without a gap, as contpte needs.
    pub(super) fn in_blocks(&self, leaf: Leaf) -> u64 {
        let per_block = (leaf.bytes() / self.page.bytes()) as usize;
        let skip = (leaf.align_up(self.start) - self.start) / self.page.bytes();
        let blocks = self.pages.get(skip as usize..).unwrap_or_default();
        let whole = |block: &&[Option<(u64, u64)>]| {
            let Some(Some((first, flags))) = block.first() else {
                return false;
            };
            flags & (HEAD | TAIL) != 0
                && first % per_block as u64 == 0
                && block.iter().zip(*first..).skip(1).all(|(page, expected)| {
                    page.is_some_and(|(frame, flags)| frame == expected && flags & TAIL != 0)
                })
        };
        blocks.chunks_exact(per_block).filter(whole).count() as u64 * leaf.bytes()
    }

    /// Mapped bytes by the size of their folio, as far as the folio is mapped here.
    pub(super) fn folios(&self) -> Folios {
        let mut folios = Folios::new();
        let mut run: u64 = 0;
        let mut expected = None;
        let mut end_run = |run: u64| {
            if run > 0 {
                let bytes = run * self.page.bytes();
                *folios.entry(bytes).or_default() += bytes;
            }
        };
        for page in &self.pages {
            let Some((frame, flags)) = page else {
                end_run(std::mem::take(&mut run));
                expected = None;
                continue;
            };
            if flags & TAIL != 0 && expected == Some(*frame) {
                run += 1;
            } else {
                end_run(std::mem::replace(&mut run, 1));
            }
            expected = Some(frame + 1);
        }
        end_run(run);
        folios
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
