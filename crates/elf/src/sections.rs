//! The section headers of an image, read a few at a time.

use object::LittleEndian as LE;
use object::elf::{self, SectionHeader64};
use object::pod::slice_from_bytes;

use crate::image::{ImageError, Table, read_range};
use crate::source::ReadAt;

/// Bytes of one section header (gABI, section header; checked by the reader of the table).
pub(crate) const SECTION_HEADER: u64 = size_of::<SectionHeader64<LE>>() as u64;

/// One section header, as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// sh_type.
    pub(crate) sh_type: u32,
    /// sh_offset, bytes.
    pub(crate) offset: u64,
    /// sh_size, bytes.
    pub(crate) size: u64,
}

impl Section {
    /// Bytes of the file that belong to the section (SHT_NULL and SHT_NOBITS have none).
    pub(crate) fn file_size(&self) -> u64 {
        if self.sh_type == elf::SHT_NOBITS.0 || self.sh_type == elf::SHT_NULL.0 {
            0
        } else {
            self.size
        }
    }
}

/// Calls `each` with the index and content of every section header. Holds a bounded number of
/// them in memory, however many a file claims.
pub(crate) fn for_each_section(
    source: &(impl ReadAt + ?Sized),
    table: &Table,
    file_len: u64,
    mut each: impl FnMut(u64, Section) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    const WHAT: &str = "the section headers";
    const BATCH: u64 = 512;
    let mut index = 0;
    while index < table.count {
        let batch = BATCH.min(table.count - index);
        let start = table.offset.saturating_add(index * SECTION_HEADER);
        let bytes = read_range(source, start, batch * SECTION_HEADER, file_len, WHAT)?;
        let (headers, _) = slice_from_bytes::<SectionHeader64<LE>>(&bytes, batch as usize)
            .map_err(|()| ImageError::Truncated(WHAT))?;
        for header in headers {
            each(index, Section::from(header))?;
            index += 1;
        }
    }
    Ok(())
}

impl From<&SectionHeader64<LE>> for Section {
    fn from(header: &SectionHeader64<LE>) -> Section {
        Section {
            sh_type: header.sh_type.get(LE).0,
            offset: header.sh_offset.get(LE),
            size: header.sh_size.get(LE),
        }
    }
}
