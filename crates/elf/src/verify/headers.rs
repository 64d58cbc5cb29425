//! Compares the headers of two files by meaning.

use hugetext_leaf::{Leaf, ObjectKind, Segment, Span};
use object::elf;

use super::bytes::{Comparer, taken_by_headers};
use super::difference::Difference;
use super::memory::SMALLEST_PAGE;
use crate::encoding::FileHeader;
use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// Every field of the ELF header except the offsets and lengths of the tables.
pub(super) fn file_header<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let old = raw_header(comparer.old, comparer.old_image).map_err(Difference::Old)?;
    let new = raw_header(comparer.new, comparer.new_image).map_err(Difference::New)?;
    let fields = [
        ("e_ident", old.e_ident == new.e_ident),
        ("e_type", old.e_type == new.e_type),
        ("e_machine", old.e_machine == new.e_machine),
        ("e_version", old.e_version == new.e_version),
        ("e_entry", old.e_entry == new.e_entry),
        ("e_flags", old.e_flags == new.e_flags),
        ("e_ehsize", old.e_ehsize == new.e_ehsize),
        ("e_phentsize", old.e_phentsize == new.e_phentsize),
        ("e_shentsize", old.e_shentsize == new.e_shentsize),
        // A cut of text adds sections. Which ones it may add is checked with the sections.
        ("e_shnum", old.e_shnum <= new.e_shnum),
        ("e_shstrndx", old.e_shstrndx == new.e_shstrndx),
    ];
    match fields.iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(Difference::FileHeader(field)),
        None => Ok(()),
    }
}

fn raw_header(source: &(impl ReadAt + ?Sized), image: &Image) -> Result<FileHeader, ImageError> {
    const WHAT: &str = "the file header";
    let bytes = read_range(source, 0, image.file_header().end, image.file_len, WHAT)?;
    let header = image.encoding.decode(&bytes);
    header.ok_or(ImageError::Truncated(WHAT))
}

/// Program headers other than PT_LOAD and PT_NULL must be the same, in the same order, with the
/// same bytes. PT_NULL has no meaning.
pub(super) fn program_headers<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let others = |image: &Image| -> Vec<ProgramHeader> {
        let headers = image.headers.iter();
        headers
            .filter(|header| ![elf::PT_LOAD.0, elf::PT_NULL.0].contains(&header.p_type))
            .copied()
            .collect()
    };
    let taken = taken_by_headers(comparer.old_image, comparer.new_image);
    comparer.was_zero("room behind the program headers", taken)?;
    let new = others(comparer.new_image);
    let old = without_left_out(comparer.old_image, others(comparer.old_image), &new);
    if old.len() != new.len() {
        let index = old.len().min(new.len());
        return Err(Difference::ProgramHeader {
            index,
            what: "presence",
        });
    }
    for (index, (old, new)) in old.iter().zip(&new).enumerate() {
        let differs = |what| Difference::ProgramHeader { index, what };
        if old.p_type == elf::PT_PHDR.0 {
            same_pt_phdr(comparer, old, new).map_err(differs)?;
            continue;
        }
        let span = Span::new(old.offset, old.offset.saturating_add(old.filesz));
        if span.overlaps(&taken) {
            return Err(differs("its bytes, which the program headers take"));
        }
        let place = ProgramHeader {
            offset: old.offset,
            ..*new
        };
        if place != *old {
            return Err(differs("a field other than its offset"));
        }
        comparer.same("the content of a program header", span, new.offset)?;
    }
    Ok(())
}

/// The headers of the old file without those that the new one may leave out: one PT_NOTE, if PT_GNU_PROPERTY
/// names the same bytes in both files, and PT_PHDR, if nothing is placed by it.
fn without_left_out(
    image: &Image,
    mut old: Vec<ProgramHeader>,
    new: &[ProgramHeader],
) -> Vec<ProgramHeader> {
    let count = |p_type: elf::ProgramType, headers: &[ProgramHeader]| {
        let same = headers.iter().filter(|header| header.p_type == p_type.0);
        same.count()
    };
    if count(elf::PT_NOTE, new).saturating_add(1) == count(elf::PT_NOTE, &old) {
        let place = |header: &ProgramHeader| (header.vaddr, header.filesz, header.memsz);
        let is_property = |header: &&ProgramHeader| header.p_type == elf::PT_GNU_PROPERTY.0;
        let kept = |property: &ProgramHeader| {
            let mut properties = new.iter().filter(is_property);
            properties.any(|other| place(other) == place(property))
        };
        let is_told_elsewhere = |note: &ProgramHeader| {
            let mut properties = old.iter().filter(is_property);
            note.p_type == elf::PT_NOTE.0
                && properties.any(|property| {
                    property.offset == note.offset
                        && place(property) == place(note)
                        && kept(property)
                })
        };
        let position = old.iter().position(is_told_elsewhere);
        position.map(|index| old.remove(index));
    }
    if count(elf::PT_PHDR, new) == 0 && !is_placed_by_pt_phdr(image, &old) {
        old.retain(|header| header.p_type != elf::PT_PHDR.0);
    }
    old
}

/// Whether a loader may compute the load bias as the distance between PT_PHDR and AT_PHDR. It may for every file
/// that the kernel can start at a random address, whatever else the file is.
fn is_placed_by_pt_phdr(image: &Image, headers: &[ProgramHeader]) -> bool {
    let interpreted = headers
        .iter()
        .any(|header| header.p_type == elf::PT_INTERP.0);
    let flags = image
        .dynamic
        .iter()
        .filter(|(tag, _)| *tag == elf::DT_FLAGS_1.0);
    let is_pie = flags.fold(0, |all, (_, flags)| all | flags) & elf::DF_1_PIE.0 != 0;
    let may_be_started = interpreted || is_pie || image.entry != 0 || image.dynamic.is_empty();
    image.kind != ObjectKind::Executable && may_be_started
}

/// PT_PHDR names the program header table (gABI). If the old one did, the new one must.
fn same_pt_phdr<O, N>(
    comparer: &Comparer<'_, O, N>,
    old: &ProgramHeader,
    new: &ProgramHeader,
) -> Result<(), &'static str>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let names_table = |header: &ProgramHeader, image: &Image| {
        header.offset == image.program_table.offset
            && header.filesz == image.program_table.len()
            && header.memsz == header.filesz
    };
    // The table may have grown.
    let same = old.flags == new.flags
        && [old.vaddr, old.paddr] == [new.vaddr, new.paddr]
        && (old.p_type, old.align) == (new.p_type, new.align)
        && old.filesz.wrapping_sub(old.memsz) == new.filesz.wrapping_sub(new.memsz);
    if !same {
        return Err("a field other than its offset and size");
    }
    if names_table(old, comparer.old_image) && !names_table(new, comparer.new_image) {
        return Err("the range of the program header table");
    }
    Ok(())
}

/// The facts that loaders compute from a PT_LOAD besides bytes and rights: its first address, its
/// alignment, and the pages that it covers.
pub(super) fn loads(old: &Image, new: &Image) -> Result<(), Difference> {
    let mut before: Option<&Segment> = None;
    for segment in &new.segments {
        let differs = |what| Difference::Load {
            vaddr: segment.vaddr,
            what,
        };
        let header = new.load_of(segment);
        let header = header.ok_or(differs("has no header"))?;
        same_flags(old, segment, header).map_err(differs)?;
        // What lies behind a part that is repeated is no beginning.
        if header.vaddr == segment.vaddr {
            let same = old.segments.iter().find(|s| s.vaddr == segment.vaddr);
            // The second part of a PT_LOAD that was cut is compared with the first part.
            let first = before.filter(|first| is_cut(first, segment));
            let (was, image) = match (same, first) {
                (Some(same), _) => (same, old),
                (None, Some(first)) => (first, new),
                (None, None) => return Err(differs("does not begin where an old one did")),
            };
            let was_header = image.load_of(was).ok_or(differs("had no header"))?;
            same_place([was, segment], [was_header, header]).map_err(differs)?;
        }
        before = Some(segment);
    }
    pages_apart(old, new)
}

/// Whether a PT_LOAD has the flags of every one that it takes the place of. Rights are compared with the memory.
fn same_flags(old: &Image, segment: &Segment, header: &ProgramHeader) -> Result<(), &'static str> {
    let mut taken = old
        .segments
        .iter()
        .filter(|old| segment.memory().overlaps(&old.memory()))
        .filter_map(|part| old.load_of(part));
    if taken.any(|old| header.flags & !ACCESS != old.flags & !ACCESS) {
        return Err("has other flags");
    }
    Ok(())
}

/// Whether a PT_LOAD is as well placed as what it is compared with: segment and header of either, the old one first.
fn same_place(
    [before, segment]: [&Segment; 2],
    [before_header, header]: [&ProgramHeader; 2],
) -> Result<(), &'static str> {
    let inside = segment.vaddr - before.vaddr;
    if header.paddr != before_header.paddr.wrapping_add(inside) {
        return Err("has another physical address");
    }
    if segment.align < before.align {
        return Err("has a smaller alignment");
    }
    // Page tables and p_align: glibc refuses a PT_LOAD that is not congruent to its p_align
    // (elf/dl-load.c, _dl_map_object_from_fd()).
    let congruent = |segment: &Segment, align| {
        let align = Leaf::from_bytes(align).unwrap_or(Leaf::K4);
        align.is_aligned(segment.vaddr.wrapping_sub(segment.offset))
    };
    let page = SMALLEST_PAGE.bytes().max(before.align);
    if segment.filesz > 0 && congruent(before, page) && !congruent(segment, page) {
        return Err("is no longer congruent to a page");
    }
    let was = congruent(before, before.align.max(1));
    if was && !congruent(segment, segment.align.max(1)) {
        return Err("is not congruent to its alignment");
    }
    Ok(())
}

/// The bits of p_flags that are access rights, which are compared with the memory.
const ACCESS: u32 = elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0;

/// Whether `second` continues `first` at a page of each in memory, and lies behind it in the file.
fn is_cut(first: &Segment, second: &Segment) -> bool {
    let align = Leaf::from_bytes(second.align.max(1)).unwrap_or(SMALLEST_PAGE);
    let at = second.vaddr;
    first.memory().end == at
        && first.file_backed().end == at
        && first.file().end <= second.offset
        && first.perms == second.perms
        && align.max(SMALLEST_PAGE).is_aligned(at)
}

/// Adjacent segments that shared no page must still share none, so that neither mapping covers the
/// other.
fn pages_apart(old: &Image, new: &Image) -> Result<(), Difference> {
    let smallest = old.segments.iter().map(|segment| segment.align).min();
    let page = Leaf::from_bytes(smallest.unwrap_or(0))
        .map_or(SMALLEST_PAGE, |align| align.max(SMALLEST_PAGE));
    let meets = |image: &Image, vaddr: u64| {
        let before = image.segments.iter().rfind(|segment| segment.vaddr < vaddr);
        before.is_some_and(|before| before.memory().end > page.align_down(vaddr))
    };
    let clash = new
        .segments
        .iter()
        .find(|segment| meets(new, segment.vaddr) && !meets(old, segment.vaddr));
    match clash {
        Some(segment) => Err(Difference::Load {
            vaddr: segment.vaddr,
            what: "shares a page with the one before",
        }),
        None => Ok(()),
    }
}
