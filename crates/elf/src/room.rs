//! Room for further program headers where the table is.
//!
//! GNU strip and objcopy put the table behind the ELF header, wherever it was. They move sections
//! to make room there, and so break a program whose table was moved. So the table stays.

use hugetext_leaf::{ObjectKind, Segment, Span};
use object::elf;

use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// The room for further program headers in a table.
#[derive(Debug)]
pub(crate) struct Room {
    /// The entries that tell loaders and other readers nothing that another header does not tell, by index, the least
    /// useful first.
    spare: Vec<usize>,
    /// Number of entries that fit behind the table.
    behind: usize,
}

impl Room {
    /// The room of `headers`, which are those of `image` or of its rewrite, for `most` further ones. `image` was read
    /// from `source`.
    pub(crate) fn of(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
        headers: &[ProgramHeader],
        most: usize,
    ) -> Result<Room, ImageError> {
        Ok(Room {
            spare: spare(headers, image),
            // The bytes behind the table are free in the new file if they are in the old one, since both
            // move together or not at all.
            behind: behind_table(source, image, most as u64)? as usize,
        })
    }

    /// Number of headers that it holds.
    pub(crate) fn entries(&self) -> usize {
        self.spare.len().saturating_add(self.behind)
    }

    /// The entries, by index, that `wanted` further headers replace before the table grows.
    pub(crate) fn spare(&self, wanted: usize) -> &[usize] {
        self.spare.get(..wanted).unwrap_or(&self.spare)
    }
}

fn spare(headers: &[ProgramHeader], image: &Image) -> Vec<usize> {
    // Of bytes that an unused header names, nobody knows whether something needs them to be named.
    let unused = |header: &ProgramHeader| header.p_type == elf::PT_NULL.0 && header.filesz == 0;
    let tests: [&dyn Fn(&ProgramHeader) -> bool; 3] =
        [&unused, &|header| is_repeated(header, headers), &|header| {
            header.p_type == elf::PT_PHDR.0 && !needs_pt_phdr(image)
        }];
    let found = tests.into_iter().flat_map(|test| {
        let entries = headers.iter().enumerate();
        entries.filter(move |(_, header)| test(header))
    });
    found.map(|(index, _)| index).collect()
}

/// Whether the header is a PT_NOTE whose bytes PT_GNU_PROPERTY names too. Linkers write both for
/// .note.gnu.property; kernels, and glibc since 2.32, read the latter.
fn is_repeated(header: &ProgramHeader, headers: &[ProgramHeader]) -> bool {
    let same = |other: &ProgramHeader| {
        other.p_type == elf::PT_GNU_PROPERTY.0
            && (other.vaddr, other.offset) == (header.vaddr, header.offset)
            && (other.filesz, other.memsz) == (header.filesz, header.memsz)
    };
    header.p_type == elf::PT_NOTE.0 && headers.iter().any(same)
}

/// Whether loaders compute the load bias from PT_PHDR. They do for whatever is executed at a random
/// address: PIEs, and libraries that can be executed too. For libraries that are only loaded they know
/// it, GNU ld writes none, and glibc and musl find the table by e_phoff (glibc, elf/dl-load.h,
/// _dl_postprocess_loadcmd()). At a fixed address the bias is zero.
fn needs_pt_phdr(image: &Image) -> bool {
    let is_only_loaded = image.kind == ObjectKind::SharedObject
        && image.entry == 0
        && !image.dynamic.is_empty()
        && image.header(elf::PT_INTERP).is_none();
    image.kind != ObjectKind::Executable && !is_only_loaded
}

/// Number of headers, `most` at most, that fit behind the table of `image`, in zeros that no section
/// and no other header names, and which the PT_LOAD of the table holds.
fn behind_table(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    most: u64,
) -> Result<u64, ImageError> {
    let table = Span::new(image.program_table.offset, image.program_table.end());
    let count = image.program_table.count.saturating_add(most);
    let mut segments = image.segments.iter();
    let Some(holder) = segments.find(|s| s.file().contains(table.start)) else {
        return Ok(0);
    };
    // Larger counts are written elsewhere.
    if count >= u64::from(elf::PN_XNUM) {
        return Ok(0);
    }
    let size = image.encoding.size_of::<ProgramHeader>();
    let wanted = table.end.saturating_add(most.saturating_mul(size));
    let gap = Span::new(table.end, wanted.min(holder.file().end));
    Ok(zeros_in(source, image, gap, holder)? / size)
}

/// Number of zeros with which the range `gap` of the file begins, and which no section, no table and no header
/// other than that of the PT_LOAD `holder` names. Without sections, nothing tells which bytes are free.
fn zeros_in(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    gap: Span,
    holder: &Segment,
) -> Result<u64, ImageError> {
    if image.section_table.is_empty() {
        return Ok(0);
    }
    let start = gap.start;
    let mut free = gap.end.min(image.file_len);
    let mut taken = |at: u64, len: u64| {
        if len > 0 && at.saturating_add(len) > start {
            free = free.min(at.max(start));
        }
    };
    taken(image.section_table.offset, image.section_table.len());
    for header in &image.headers {
        if ![elf::PT_LOAD.0, elf::PT_PHDR.0].contains(&header.p_type) {
            taken(header.offset, header.filesz);
        }
    }
    for segment in image.segments.iter().filter(|s| *s != holder) {
        taken(segment.offset, segment.filesz);
    }
    for (_, section) in image.sections.iter() {
        taken(section.offset, section.file_size());
    }
    let len = free.saturating_sub(start);
    let bytes = read_range(source, start, len, image.file_len, "bytes of a gap")?;
    Ok(bytes.iter().take_while(|byte| **byte == 0).count() as u64)
}
