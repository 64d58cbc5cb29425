//! Reads the ELF header, the offsets of the tables, and the program headers.

use std::io;

use hugetext_leaf::Perms;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ImageError;
use crate::source::{ReadAt, read_range, truncated};

/// Longer program header tables are refused; the largest seen are below 100 entries.
const MAX_HEADERS: u64 = 1 << 16;

/// One entry of the program header table, unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
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
    pub(crate) fn perms(&self) -> Perms {
        let has = |flag: elf::ProgramFlags| self.flags & flag.0 != 0;
        Perms {
            read: has(elf::PF_R),
            write: has(elf::PF_W),
            exec: has(elf::PF_X),
        }
    }
}

/// The range of a header table in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Table {
    /// File offset of the first entry, bytes.
    pub offset: u64,
    /// Number of entries.
    pub count: u64,
    /// Bytes per entry.
    pub entry_size: u64,
}

impl Table {
    /// Length in bytes. It saturates, so compare it with the file before use.
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

/// Reads the first bytes alone before anything else: most files of a scan end here.
pub(crate) fn read_file_header(
    source: &(impl ReadAt + ?Sized),
) -> Result<FileHeader64<LE>, ImageError> {
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
pub(crate) fn read_tables(
    source: &(impl ReadAt + ?Sized),
    header: &FileHeader64<LE>,
    file_len: u64,
) -> Result<(Table, Table, u64), ImageError> {
    let first = read_first_section(source, header, file_len)?;
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
        offset: header.e_shoff.get(LE),
        count: section_count,
        entry_size: u64::from(header.e_shentsize.get(LE)),
    };
    if section_table.end() > file_len {
        return Err(ImageError::Truncated(SECTIONS));
    }
    Ok((program_table, section_table, section_names))
}

/// The name of the section header table in errors.
const SECTIONS: &str = "the section headers";

/// Section header 0; `None` if the file has no section headers.
fn read_first_section(
    source: &(impl ReadAt + ?Sized),
    header: &FileHeader64<LE>,
    file_len: u64,
) -> Result<Option<SectionHeader64<LE>>, ImageError> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Ok(None);
    }
    let size = size_of::<SectionHeader64<LE>>() as u64;
    if u64::from(header.e_shentsize.get(LE)) != size {
        return Err(ImageError::Malformed("section headers of unknown size"));
    }
    let bytes = read_range(source, offset, size, file_len, SECTIONS)?;
    parse(&bytes, SECTIONS).map(Some)
}

pub(crate) fn read_program_headers(
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

fn parse<T: Pod>(bytes: &[u8], what: &'static str) -> Result<T, ImageError> {
    from_bytes::<T>(bytes)
        .map(|(value, _)| *value)
        .map_err(|()| ImageError::Truncated(what))
}
