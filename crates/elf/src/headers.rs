//! Reads the ELF header, the offsets of the tables, and the program headers.

use std::io;

use hugetext_leaf::{Class, Perms};
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::encoding::{Encoding, Entry, Fields, FileHeader};
use crate::error::ImageError;
use crate::section::Section;
use crate::source::{ReadAt, read_range, truncated};

/// Longer program header tables are refused; the largest seen are below 100 entries.
const MAX_HEADERS: u64 = 1 << 16;

/// One entry of the program header table, unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
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

impl Entry for ProgramHeader {
    const SIZES: [u64; 2] = [32, 56];

    /// p_flags stands where it pads least, so its place depends on the class.
    fn visit(&mut self, fields: &mut impl Fields) {
        let class = fields.class();
        fields.word(&mut self.p_type);
        if class == Class::Bits64 {
            fields.word(&mut self.flags);
        }
        fields.wide(&mut self.offset);
        fields.wide(&mut self.vaddr);
        fields.wide(&mut self.paddr);
        fields.wide(&mut self.filesz);
        fields.wide(&mut self.memsz);
        if class == Class::Bits32 {
            fields.word(&mut self.flags);
        }
        fields.wide(&mut self.align);
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
) -> Result<(Encoding, FileHeader), ImageError> {
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
    let encoding = Encoding::from_ident(class, data)?;
    const WHAT: &str = "the file header";
    const LONGEST: usize = 64;
    let mut bytes = [0; LONGEST];
    let size = encoding.size_of::<FileHeader>() as usize;
    let bytes = bytes.get_mut(..size).unwrap_or_default();
    source.read_exact_at(0, bytes).map_err(truncated(WHAT))?;
    let header = encoding.decode(bytes);
    Ok((encoding, header.ok_or(ImageError::Truncated(WHAT))?))
}

/// The header tables of a file.
pub(crate) struct Tables {
    pub(crate) programs: Table,
    pub(crate) sections: Table,
    /// The section that holds section names; 0 for none.
    pub(crate) section_names: u64,
}

/// Resolves the counts that do not fit the file header through section header 0 (gABI, ELF
/// header: PN_XNUM, SHN_XINDEX, e_shnum 0).
pub(crate) fn read_tables(
    source: &(impl ReadAt + ?Sized),
    encoding: Encoding,
    header: &FileHeader,
    file_len: u64,
) -> Result<Tables, ImageError> {
    let first = read_first_section(source, encoding, header, file_len)?;
    let in_first = |field: fn(&Section) -> u32, missing| {
        let found = first.as_ref().map(field).map(u64::from);
        found.ok_or(ImageError::Malformed(missing))
    };
    let program_count = match header.e_phnum {
        elf::PN_XNUM => in_first(
            |section| section.info,
            "PN_XNUM without a section header that holds the count",
        )?,
        count => u64::from(count),
    };
    let section_count = match (header.e_shnum, &first) {
        (0, Some(section)) => section.size,
        (count, Some(_)) => u64::from(count),
        (_, None) => 0,
    };
    let section_names = match elf::SymbolSection(header.e_shstrndx) {
        elf::SHN_XINDEX => in_first(
            |section| section.link,
            "SHN_XINDEX without a section header that holds the index",
        )?,
        index => u64::from(index.0),
    };
    let programs = Table {
        offset: header.e_phoff,
        count: program_count,
        entry_size: u64::from(header.e_phentsize),
    };
    let sections = Table {
        offset: header.e_shoff,
        count: section_count,
        entry_size: u64::from(header.e_shentsize),
    };
    if sections.end() > file_len {
        return Err(ImageError::Truncated(SECTIONS));
    }
    Ok(Tables {
        programs,
        sections,
        section_names,
    })
}

/// The name of the section header table in errors.
const SECTIONS: &str = "the section headers";

/// Section header 0; `None` if the file has no section headers.
fn read_first_section(
    source: &(impl ReadAt + ?Sized),
    encoding: Encoding,
    header: &FileHeader,
    file_len: u64,
) -> Result<Option<Section>, ImageError> {
    if header.e_shoff == 0 {
        return Ok(None);
    }
    let size = encoding.size_of::<Section>();
    if u64::from(header.e_shentsize) != size {
        return Err(ImageError::Malformed("section headers of unknown size"));
    }
    let bytes = read_range(source, header.e_shoff, size, file_len, SECTIONS)?;
    let section = encoding.decode(&bytes);
    section.map(Some).ok_or(ImageError::Truncated(SECTIONS))
}

pub(crate) fn read_program_headers(
    source: &(impl ReadAt + ?Sized),
    encoding: Encoding,
    table: &Table,
    file_len: u64,
) -> Result<Vec<ProgramHeader>, ImageError> {
    const WHAT: &str = "the program headers";
    if table.is_empty() {
        return Err(ImageError::Malformed("no program headers"));
    }
    if table.entry_size != encoding.size_of::<ProgramHeader>() {
        return Err(ImageError::Malformed("program headers of unknown size"));
    }
    if table.count > MAX_HEADERS {
        return Err(ImageError::Unsupported("too many program headers"));
    }
    let bytes = read_range(source, table.offset, table.len(), file_len, WHAT)?;
    Ok(encoding.decode_all(&bytes))
}
