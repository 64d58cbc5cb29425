//! The program headers of an ELF image, checked.

use std::io;

use hugetext_leaf::{Geometry, ObjectKind, Perms, Segment, SegmentError};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use serde::Serialize;

use crate::sections::for_each_section;
use crate::source::ReadAt;

/// The instruction set of an image (e_machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Machine {
    /// EM_X86_64.
    #[serde(rename = "x86-64")]
    X86_64,
    /// EM_AARCH64.
    Aarch64,
    /// EM_RISCV.
    Riscv64,
    /// EM_LOONGARCH.
    LoongArch64,
    /// Any other e_machine.
    Other(u16),
}

impl Machine {
    fn from_e_machine(value: elf::Machine) -> Machine {
        match value {
            elf::EM_X86_64 => Machine::X86_64,
            elf::EM_AARCH64 => Machine::Aarch64,
            elf::EM_RISCV => Machine::Riscv64,
            elf::EM_LOONGARCH => Machine::LoongArch64,
            other => Machine::Other(other.0),
        }
    }

    /// The instruction set the command itself runs on, as `std::env::consts::ARCH` names it.
    pub fn of_arch(arch: &str) -> Machine {
        match arch {
            "x86_64" => Machine::X86_64,
            "aarch64" => Machine::Aarch64,
            "riscv64" => Machine::Riscv64,
            "loongarch64" => Machine::LoongArch64,
            _ => Machine::Other(0),
        }
    }

    /// The geometry to assume when the user names none: the smallest base page of the
    /// architecture; none where this project knows no leaf sizes.
    pub fn default_geometry(self) -> Option<Geometry> {
        match self {
            Machine::X86_64 => Some(Geometry::X86_64),
            Machine::Aarch64 => Some(Geometry::ARM64_4K),
            _ => None,
        }
    }
}

/// One entry of the program header table, as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProgramHeader {
    /// p_type.
    pub p_type: u32,
    /// p_flags.
    pub flags: u32,
    /// p_offset, bytes.
    pub offset: u64,
    /// p_vaddr.
    pub vaddr: u64,
    /// p_paddr.
    pub paddr: u64,
    /// p_filesz, bytes.
    pub filesz: u64,
    /// p_memsz, bytes.
    pub memsz: u64,
    /// p_align, bytes.
    pub align: u64,
}

impl ProgramHeader {
    fn perms(&self) -> Perms {
        let has = |flag: elf::ProgramFlags| self.flags & flag.0 != 0;
        Perms {
            read: has(elf::PF_R),
            write: has(elf::PF_W),
            exec: has(elf::PF_X),
        }
    }
}

/// Where a header table lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Table {
    /// File offset of the first entry, bytes.
    pub offset: u64,
    /// Number of entries.
    pub count: u64,
    /// Bytes per entry.
    pub entry_size: u64,
}

impl Table {
    /// Length in bytes; saturates, so compare it with the file before use.
    pub fn len(&self) -> u64 {
        self.count.saturating_mul(self.entry_size)
    }

    /// One past the last byte; saturates.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len())
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A checked ELF64 little-endian executable or shared object: PT_LOADs ascend, do not overlap and
/// lie inside the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Image {
    /// How it comes to be loaded.
    pub kind: ObjectKind,
    /// Its instruction set.
    pub machine: Machine,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// All program headers, in file order.
    pub headers: Vec<ProgramHeader>,
    /// The PT_LOADs among them, in file order.
    pub segments: Vec<Segment>,
    /// The program header table.
    pub program_table: Table,
    /// The section header table; without entries if the file has none.
    pub section_table: Table,
    /// e_shstrndx with SHN_XINDEX resolved: the section that holds section names; 0 for none.
    pub section_names: u64,
    /// DT_ tags and values of PT_DYNAMIC, up to DT_NULL.
    pub dynamic: Vec<(i64, u64)>,
    /// Bytes after everything that the headers name: data that a program finds in its own file by
    /// offset (AppImage, PyInstaller). Zero padding of less than a page is not counted.
    pub appended: u64,
}

/// Why a file is not an image this project reads.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// ELFCLASS32 or an unknown class.
    #[error("not a 64-bit ELF file")]
    Class,
    /// ELFDATA2MSB.
    #[error("a big-endian ELF file; only little-endian ones are read")]
    Endian,
    /// ET_REL, ET_CORE or unknown.
    #[error("an ELF file, but no executable or shared object (e_type {0})")]
    Type(u16),
    /// A table or segment reaches beyond the end of the file.
    #[error("truncated: {0} reaches beyond the end of the file")]
    Truncated(&'static str),
    /// A header says what cannot be.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A PT_LOAD says what cannot be.
    #[error("malformed: {0}")]
    Segment(#[from] SegmentError),
    /// Two PT_LOADs claim the same address, or they do not ascend (gABI, program header).
    #[error("malformed: PT_LOADs at {0:#x} and {1:#x} overlap or are not in order")]
    Overlap(u64, u64),
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl ImageError {
    /// Whether the file is plainly not a program, rather than a damaged one: what a scan of a
    /// directory passes over in silence.
    pub fn is_no_program(&self) -> bool {
        matches!(
            self,
            Self::NotElf | Self::Class | Self::Endian | Self::Type(_)
        )
    }
}

/// Program header tables above this many entries are refused; the largest seen are below 100.
const MAX_HEADERS: u64 = 1 << 16;
/// PT_DYNAMIC above this many bytes is refused; the largest seen are below 4 KiB.
const MAX_DYNAMIC: u64 = 1 << 20;

impl Image {
    /// Reads and checks the headers of `source`: a handful of small reads, whatever its size.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Image, ImageError> {
        let header = read_file_header(source)?;
        let file_len = source.len()?;
        let e_type = header.e_type.get(LE);
        if !matches!(e_type, elf::ET_EXEC | elf::ET_DYN) {
            return Err(ImageError::Type(e_type.0));
        }
        let (program_table, section_table, section_names) = read_tables(source, &header, file_len)?;
        let headers = read_program_headers(source, &program_table, file_len)?;
        let segments = load_segments(&headers, file_len)?;
        let dynamic = read_dynamic(source, &headers, file_len)?;
        let named = [program_table, section_table].map(|table| table.end());
        let appended = read_appended(source, &headers, named, &section_table, file_len)?;
        Ok(Image {
            kind: object_kind(e_type, &headers, &dynamic),
            machine: Machine::from_e_machine(header.e_machine.get(LE)),
            file_len,
            headers,
            segments,
            program_table,
            section_table,
            section_names,
            dynamic,
            appended,
        })
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

    /// The PT_LOAD, by its index, that a header or section at this address and file offset goes
    /// with. What is empty often lies on the boundary of two, so the distance between address and
    /// offset decides before the address alone.
    pub(crate) fn holder_of(&self, vaddr: u64, offset: u64) -> Option<usize> {
        let delta = vaddr.wrapping_sub(offset);
        let same = |segment: &Segment| {
            let memory = segment.memory();
            segment.vaddr.wrapping_sub(segment.offset) == delta
                && memory.start <= vaddr
                && vaddr <= memory.end
        };
        let segments = || self.segments.iter();
        segments()
            .position(same)
            .or_else(|| segments().position(|segment| segment.memory().contains(vaddr)))
    }
}

fn truncated(what: &'static str) -> impl Fn(io::Error) -> ImageError {
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ImageError::Truncated(what),
        _ => ImageError::Read(error),
    }
}

/// Reads `len` bytes at `offset`; refuses a range beyond the end of the file before it allocates.
pub(crate) fn read_range(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
    len: u64,
    file_len: u64,
    what: &'static str,
) -> Result<Vec<u8>, ImageError> {
    let inside = offset.checked_add(len).is_some_and(|end| end <= file_len);
    let len = usize::try_from(len).ok().filter(|_| inside);
    let mut buffer = vec![0; len.ok_or(ImageError::Truncated(what))?];
    source
        .read_exact_at(offset, &mut buffer)
        .map_err(truncated(what))?;
    Ok(buffer)
}

fn parse<T: Pod>(bytes: &[u8], what: &'static str) -> Result<T, ImageError> {
    from_bytes::<T>(bytes)
        .map(|(value, _)| *value)
        .map_err(|()| ImageError::Truncated(what))
}

/// Asks for the first bytes alone before anything else: most files of a scan end here.
fn read_file_header(source: &(impl ReadAt + ?Sized)) -> Result<FileHeader64<LE>, ImageError> {
    let mut magic = [0; 6];
    source
        .read_exact_at(0, &mut magic)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ImageError::NotElf,
            _ => ImageError::Read(error),
        })?;
    let [m0, m1, m2, m3, class, data] = magic;
    if [m0, m1, m2, m3] != elf::ELFMAG {
        return Err(ImageError::NotElf);
    }
    if class != elf::ELFCLASS64.0 {
        return Err(ImageError::Class);
    }
    if data != elf::ELFDATA2LSB.0 {
        return Err(ImageError::Endian);
    }
    const WHAT: &str = "the file header";
    let mut bytes = [0; size_of::<FileHeader64<LE>>()];
    source
        .read_exact_at(0, &mut bytes)
        .map_err(truncated(WHAT))?;
    parse(&bytes, WHAT)
}

/// Resolves the counts that do not fit the file header through section header 0 (gABI, ELF
/// header: PN_XNUM, SHN_XINDEX, e_shnum 0).
fn read_tables(
    source: &(impl ReadAt + ?Sized),
    header: &FileHeader64<LE>,
    file_len: u64,
) -> Result<(Table, Table, u64), ImageError> {
    let section_offset = header.e_shoff.get(LE);
    let entry_size = u64::from(header.e_shentsize.get(LE));
    let first = if section_offset == 0 {
        None
    } else {
        let size = size_of::<SectionHeader64<LE>>() as u64;
        if entry_size != size {
            return Err(ImageError::Malformed("section headers of unknown size"));
        }
        let bytes = read_range(
            source,
            section_offset,
            size,
            file_len,
            "the section headers",
        )?;
        Some(parse::<SectionHeader64<LE>>(&bytes, "the section headers")?)
    };
    let in_first = |field: fn(&SectionHeader64<LE>) -> u64, missing| {
        first
            .as_ref()
            .map(field)
            .ok_or(ImageError::Malformed(missing))
    };
    let program_count = match header.e_phnum.get(LE) {
        elf::PN_XNUM => in_first(
            |section| u64::from(section.sh_info.get(LE)),
            "PN_XNUM without a section header that holds the count",
        )?,
        count => u64::from(count),
    };
    let section_count = match (header.e_shnum.get(LE), &first) {
        (0, Some(section)) => section.sh_size.get(LE),
        (count, Some(_)) => u64::from(count),
        (_, None) => 0,
    };
    let section_names = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => in_first(
            |section| u64::from(section.sh_link.get(LE)),
            "SHN_XINDEX without a section header that holds the index",
        )?,
        index => u64::from(index.0),
    };
    let program_table = Table {
        offset: header.e_phoff.get(LE),
        count: program_count,
        entry_size: u64::from(header.e_phentsize.get(LE)),
    };
    let section_table = Table {
        offset: section_offset,
        count: section_count,
        entry_size,
    };
    if section_table.end() > file_len {
        return Err(ImageError::Truncated("the section headers"));
    }
    Ok((program_table, section_table, section_names))
}

fn read_program_headers(
    source: &(impl ReadAt + ?Sized),
    table: &Table,
    file_len: u64,
) -> Result<Vec<ProgramHeader>, ImageError> {
    const WHAT: &str = "the program headers";
    if table.is_empty() {
        return Err(ImageError::Malformed("no program headers"));
    }
    if table.entry_size != size_of::<ProgramHeader64<LE>>() as u64 {
        return Err(ImageError::Malformed("program headers of unknown size"));
    }
    if table.count > MAX_HEADERS {
        return Err(ImageError::Malformed("too many program headers"));
    }
    let bytes = read_range(source, table.offset, table.len(), file_len, WHAT)?;
    let (entries, _) = slice_from_bytes::<ProgramHeader64<LE>>(&bytes, bytes.len() / 56)
        .map_err(|()| ImageError::Truncated(WHAT))?;
    Ok(entries
        .iter()
        .map(|entry| ProgramHeader {
            p_type: entry.p_type.get(LE).0,
            flags: entry.p_flags.get(LE).0,
            offset: entry.p_offset.get(LE),
            vaddr: entry.p_vaddr.get(LE),
            paddr: entry.p_paddr.get(LE),
            filesz: entry.p_filesz.get(LE),
            memsz: entry.p_memsz.get(LE),
            align: entry.p_align.get(LE),
        })
        .collect())
}

fn load_segments(headers: &[ProgramHeader], file_len: u64) -> Result<Vec<Segment>, ImageError> {
    let loads = headers
        .iter()
        .filter(|header| header.p_type == elf::PT_LOAD.0);
    let segments = loads
        .map(|h| {
            let segment = Segment::new(h.vaddr, h.offset, h.filesz, h.memsz, h.align, h.perms())?;
            if segment.filesz > 0 && segment.file().end > file_len {
                return Err(ImageError::Truncated("a PT_LOAD"));
            }
            Ok(segment)
        })
        .collect::<Result<Vec<_>, ImageError>>()?;
    if segments.is_empty() {
        return Err(ImageError::Malformed("no PT_LOAD"));
    }
    let clash = segments.windows(2).find_map(|pair| match pair {
        [a, b] if b.vaddr < a.memory().end => Some(ImageError::Overlap(a.vaddr, b.vaddr)),
        _ => None,
    });
    clash.map_or(Ok(segments), Err)
}

fn read_dynamic(
    source: &(impl ReadAt + ?Sized),
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
        return Err(ImageError::Malformed("PT_DYNAMIC of more than 1 MiB"));
    }
    let bytes = read_range(source, header.offset, header.filesz, file_len, "PT_DYNAMIC")?;
    let (entries, _) = slice_from_bytes::<elf::Dyn64<LE>>(&bytes, bytes.len() / 16)
        .map_err(|()| ImageError::Truncated("PT_DYNAMIC"))?;
    Ok(entries
        .iter()
        .map(|entry| (entry.d_tag.get(LE).0, entry.d_val.get(LE)))
        .take_while(|(tag, _)| *tag != elf::DT_NULL.0)
        .collect())
}

/// Section headers are read only where nothing cheaper names the end of the file: linkers put the
/// section header table last.
fn read_appended(
    source: &(impl ReadAt + ?Sized),
    headers: &[ProgramHeader],
    tables: [u64; 2],
    sections: &Table,
    file_len: u64,
) -> Result<u64, ImageError> {
    /// More than padding would need.
    const PADDING: u64 = 4096;
    // What has no bytes names none, wherever it points.
    let named = |offset: u64, size: u64| {
        if size > 0 {
            offset.saturating_add(size)
        } else {
            0
        }
    };
    let headers = headers.iter().map(|h| named(h.offset, h.filesz));
    let mut end = headers.chain(tables).max().unwrap_or(0);
    if end < file_len {
        for_each_section(source, sections, file_len, |_, section, _| {
            end = end.max(named(section.offset, section.file_size()));
            Ok(())
        })?;
    }
    let appended = file_len.saturating_sub(end);
    if appended == 0 || appended >= PADDING {
        return Ok(appended);
    }
    let bytes = read_range(source, end, appended, file_len, "the end of the file")?;
    let padding = bytes.iter().all(|byte| *byte == 0);
    Ok(if padding { 0 } else { appended })
}

/// A shared object is what the dynamic loader places; a program is what the kernel places. Linkers
/// mark PIEs by DF_1_PIE since binutils 2.26; older ones have an interpreter and no DT_SONAME.
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
