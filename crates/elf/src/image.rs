//! The program headers of an ELF image, checked.

use hugetext_leaf::{LIMIT, ObjectKind, Segment, Span};
use object::elf;
use serde::Serialize;

use crate::arch::Machine;
use crate::encoding::{Dynamic, Encoding, FileHeader};
use crate::error::ImageError;
use crate::headers::{
    ProgramHeader, Table, Tables, read_file_header, read_program_headers, read_tables,
};
use crate::repeats::parts;
use crate::sections::Sections;
use crate::source::{ReadAt, read_range};

/// A checked executable or shared object: PT_LOADs ascend, do not overlap, unless one repeats a part of the one before it,
/// and lie inside the file. In one of 32 bits they end below 2^32.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Image {
    /// How the image is loaded.
    pub kind: ObjectKind,
    /// How its numbers are written.
    pub encoding: Encoding,
    /// Its instruction set.
    pub machine: Machine,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// e_entry: where an executed file begins, or 0.
    pub entry: u64,
    /// All program headers, in file order.
    pub headers: Vec<ProgramHeader>,
    /// The PT_LOADs among them, in file order. One that holds another is divided: what lies before it, in it and behind it.
    pub segments: Vec<Segment>,
    /// The program header table.
    pub program_table: Table,
    /// The section header table; without entries if the file has none.
    pub section_table: Table,
    /// The sections.
    #[serde(skip)]
    pub(crate) sections: Sections,
    /// e_shstrndx with SHN_XINDEX resolved: the section that holds section names; 0 for none.
    pub section_names: u64,
    /// DT_ tags and values of PT_DYNAMIC, up to DT_NULL.
    pub dynamic: Vec<(i64, u64)>,
    /// Bytes after everything that the headers name: data that a program finds in its own file by
    /// offset (AppImage, PyInstaller). Zero padding of less than a page does not count.
    pub appended: u64,
}

/// A longer PT_DYNAMIC is refused; the largest seen are below 4 KiB.
const MAX_DYNAMIC: u64 = 1 << 20;

impl Image {
    /// Reads and checks the headers of `source` with a few small reads, for any size.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Image, ImageError> {
        let (encoding, header) = read_file_header(source)?;
        let file_len = source.len()?;
        let e_type = elf::FileType(header.e_type);
        if !matches!(e_type, elf::ET_EXEC | elf::ET_DYN) {
            return Err(ImageError::Type(e_type.0));
        }
        let Tables {
            programs,
            sections,
            section_names,
        } = read_tables(source, encoding, &header, file_len)?;
        let headers = read_program_headers(source, encoding, &programs, file_len)?;
        let segments = load_segments(encoding, &headers, file_len)?;
        let dynamic = read_dynamic(source, encoding, &headers, file_len)?;
        let mut image = Image {
            kind: object_kind(e_type, &headers, &dynamic),
            encoding,
            machine: Machine::new(elf::Machine(header.e_machine), encoding.class),
            file_len,
            entry: header.e_entry,
            headers,
            segments,
            program_table: programs,
            sections: Sections::read(source, encoding, &sections, section_names, file_len)?,
            section_table: sections,
            section_names,
            dynamic,
            appended: 0,
        };
        if is_debug_information(&image) {
            return Err(ImageError::DebugInformation);
        }
        image.appended = read_appended(source, &image)?;
        Ok(image)
    }

    /// The most that an address or an offset of a new file can be, bytes.
    pub(crate) fn largest(&self) -> u64 {
        self.encoding.largest().min(LIMIT)
    }

    /// The range of the ELF header in the file.
    pub(crate) fn file_header(&self) -> Span {
        Span::new(0, self.encoding.size_of::<FileHeader>())
    }

    /// Bytes of text: PT_LOADs with PF_X.
    pub fn text_len(&self) -> u64 {
        self.segments
            .iter()
            .filter(|segment| segment.is_text())
            .map(|segment| segment.filesz)
            .sum()
    }

    /// The first program header of a type.
    pub fn header(&self, p_type: elf::ProgramType) -> Option<&ProgramHeader> {
        self.headers.iter().find(|header| header.p_type == p_type.0)
    }

    /// The PT_LOAD that gives a segment or a part of one: the last that holds it.
    pub(crate) fn load_of(&self, part: &Segment) -> Option<&ProgramHeader> {
        self.headers.iter().rfind(|header| {
            let end = header.vaddr.saturating_add(header.memsz);
            header.p_type == elf::PT_LOAD.0
                && header.vaddr <= part.vaddr
                && part.memory().end <= end
        })
    }

    /// The first value of a dynamic tag.
    pub fn dynamic_value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.dynamic
            .iter()
            .find(|(found, _)| *found == tag.0)
            .map(|(_, value)| *value)
    }

    /// The file offset of the byte loaded at `vaddr`.
    pub fn file_offset(&self, vaddr: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.file_backed().contains(vaddr))?;
        segment
            .offset
            .checked_add(vaddr.checked_sub(segment.vaddr)?)
    }
}

fn load_segments(
    encoding: Encoding,
    headers: &[ProgramHeader],
    file_len: u64,
) -> Result<Vec<Segment>, ImageError> {
    let loads = headers
        .iter()
        .filter(|header| header.p_type == elf::PT_LOAD.0);
    let segments = loads
        .map(|h| {
            let segment = Segment::new(h.vaddr, h.offset, h.filesz, h.memsz, h.align, h.perms())?;
            if segment.filesz > 0 && segment.file().end > file_len {
                return Err(ImageError::Truncated("a PT_LOAD"));
            }
            if segment.memory().end > encoding.largest() {
                return Err(ImageError::Unsupported(
                    "a PT_LOAD that ends at 2^32 or beyond",
                ));
            }
            Ok(segment)
        })
        .collect::<Result<Vec<_>, ImageError>>()?;
    if segments.is_empty() {
        return Err(ImageError::Malformed("no PT_LOAD"));
    }
    parts(&segments).map_err(|(one, other)| ImageError::Overlap(one, other))
}

fn read_dynamic(
    source: &(impl ReadAt + ?Sized),
    encoding: Encoding,
    headers: &[ProgramHeader],
    file_len: u64,
) -> Result<Vec<(i64, u64)>, ImageError> {
    let Some(header) = headers
        .iter()
        .find(|header| header.p_type == elf::PT_DYNAMIC.0)
    else {
        return Ok(Vec::new());
    };
    if header.filesz > MAX_DYNAMIC {
        return Err(ImageError::Unsupported("PT_DYNAMIC of more than 1 MiB"));
    }
    let bytes = read_range(source, header.offset, header.filesz, file_len, "PT_DYNAMIC")?;
    Ok(encoding
        .decode_all(&bytes)
        .into_iter()
        .map(|entry: Dynamic| (entry.tag(encoding), entry.d_val))
        .take_while(|(tag, _)| *tag != elf::DT_NULL.0)
        .collect())
}

/// Whether all code that the PT_LOADs hold by the section headers has no bytes in the file. What lies at their offsets is
/// then something else.
fn is_debug_information(image: &Image) -> bool {
    let texts = || image.segments.iter().filter(|segment| segment.is_text());
    if texts().next().is_none() {
        return false;
    }
    let (mut with_bytes, mut without) = (false, false);
    for (_, section) in image.sections.iter() {
        let is_code = section.is_allocated() && section.flags & elf::SHF_EXECINSTR.0 != 0;
        let addresses = Span::new(section.addr, section.addr.saturating_add(section.size));
        if is_code && texts().any(|text| text.file_backed().overlaps(&addresses)) {
            let is_empty = section.sh_type == elf::SHT_NOBITS.0;
            with_bytes |= !is_empty;
            without |= is_empty;
        }
    }
    without && !with_bytes
}

/// Bytes behind everything that a header names. Padding is none.
fn read_appended(source: &(impl ReadAt + ?Sized), image: &Image) -> Result<u64, ImageError> {
    // More than padding would need.
    const PADDING: u64 = 4096;
    // A range without bytes names none, wherever it points.
    let named = |offset: u64, size: u64| {
        if size > 0 {
            offset.saturating_add(size)
        } else {
            0
        }
    };
    let file_len = image.file_len;
    let tables = [image.program_table, image.section_table].map(|table| table.end());
    let headers = image.headers.iter().map(|h| named(h.offset, h.filesz));
    let mut end = headers.chain(tables).max().unwrap_or(0);
    for (_, section) in image.sections.iter() {
        end = end.max(named(section.offset, section.file_size()));
    }
    let appended = file_len.saturating_sub(end);
    if appended == 0 || appended >= PADDING {
        return Ok(appended);
    }
    let bytes = read_range(source, end, appended, file_len, "the end of the file")?;
    let padding = bytes.iter().all(|byte| *byte == 0);
    Ok(if padding { 0 } else { appended })
}

/// The dynamic loader places shared objects; the kernel places programs. Linkers mark PIEs with
/// DF_1_PIE since binutils 2.26; older PIEs have an interpreter and no DT_SONAME.
fn object_kind(
    e_type: elf::FileType,
    headers: &[ProgramHeader],
    dynamic: &[(i64, u64)],
) -> ObjectKind {
    let interpreted = headers
        .iter()
        .any(|header| header.p_type == elf::PT_INTERP.0);
    let named = dynamic.iter().any(|(tag, _)| *tag == elf::DT_SONAME.0);
    let flags = dynamic
        .iter()
        .find(|(tag, _)| *tag == elf::DT_FLAGS_1.0)
        .map_or(0, |(_, v)| *v);
    let marked_pie = flags & elf::DF_1_PIE.0 != 0;
    match e_type {
        elf::ET_EXEC => ObjectKind::Executable,
        _ if interpreted && (marked_pie || !named) => ObjectKind::Pie,
        _ if marked_pie => ObjectKind::StaticPie,
        _ => ObjectKind::SharedObject,
    }
}
