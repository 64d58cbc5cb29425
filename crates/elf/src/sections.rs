//! The section headers of an image, read a few at a time.

use object::LittleEndian as LE;
use object::elf::{self, SectionHeader64};
use object::pod::slice_from_bytes;

use crate::error::ImageError;
use crate::headers::Table;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// Bytes of one section header (gABI, section header; checked by the reader of the table).
pub(crate) const SECTION_HEADER: u64 = size_of::<SectionHeader64<LE>>() as u64;

/// The fields of a section header that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// sh_type.
    pub(crate) sh_type: u32,
    /// sh_flags.
    pub(crate) flags: u64,
    /// sh_addr.
    pub(crate) addr: u64,
    /// sh_offset, bytes.
    pub(crate) offset: u64,
    /// sh_size, bytes.
    pub(crate) size: u64,
}

impl Section {
    /// Whether the section takes part in the memory image.
    pub(crate) fn is_allocated(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Whether the section lies in a PT_LOAD of `image`, at the file offset that its address
    /// implies.
    pub(crate) fn is_loaded(&self, image: &Image) -> bool {
        let Some(end) = self.addr.checked_add(self.file_size()) else {
            return false;
        };
        let mut loaded = image.segments.iter().map(|segment| segment.file_backed());
        self.is_allocated()
            && image.file_offset(self.addr) == Some(self.offset)
            && loaded.any(|span| span.contains(self.addr) && end <= span.end)
    }

    /// Bytes of the file that belong to the section (SHT_NULL and SHT_NOBITS have none).
    pub(crate) fn file_size(&self) -> u64 {
        if self.sh_type == elf::SHT_NOBITS.0 || self.sh_type == elf::SHT_NULL.0 {
            0
        } else {
            self.size
        }
    }
}

/// The most section headers held in memory at a time, however many a file claims.
pub(crate) const BATCH: u64 = 512;

/// Section headers `first..first + BATCH`, as far as they exist.
pub(crate) fn read_batch(
    source: &(impl ReadAt + ?Sized),
    table: &Table,
    file_len: u64,
    first: u64,
) -> Result<Vec<SectionHeader64<LE>>, ImageError> {
    const WHAT: &str = "the section headers";
    let count = BATCH.min(table.count.saturating_sub(first));
    let start = first
        .checked_mul(SECTION_HEADER)
        .and_then(|skipped| table.offset.checked_add(skipped))
        .ok_or(ImageError::Truncated(WHAT))?;
    let bytes = read_range(source, start, count * SECTION_HEADER, file_len, WHAT)?;
    let (headers, _) = slice_from_bytes::<SectionHeader64<LE>>(&bytes, count as usize)
        .map_err(|()| ImageError::Truncated(WHAT))?;
    Ok(headers.to_vec())
}

/// Calls `each` with every section header, up to the first error: with its index, the fields used
/// here, and all its bytes.
pub(crate) fn for_each_section<E: From<ImageError>>(
    source: &(impl ReadAt + ?Sized),
    table: &Table,
    file_len: u64,
    mut each: impl FnMut(u64, Section, &SectionHeader64<LE>) -> Result<(), E>,
) -> Result<(), E> {
    let mut index = 0;
    while index < table.count {
        for header in read_batch(source, table, file_len, index)? {
            each(index, Section::from(&header), &header)?;
            index += 1;
        }
    }
    Ok(())
}

impl From<&SectionHeader64<LE>> for Section {
    fn from(header: &SectionHeader64<LE>) -> Section {
        Section {
            sh_type: header.sh_type.get(LE).0,
            flags: header.sh_flags.get(LE).0,
            addr: header.sh_addr.get(LE),
            offset: header.sh_offset.get(LE),
            size: header.sh_size.get(LE),
        }
    }
}

/// The names of sections.
pub(crate) struct Names(Vec<u8>);

impl Names {
    /// Reads the section `index`, which holds the names; `None` if the file has none. Names beyond
    /// its first 64 KiB read as empty.
    pub(crate) fn read(
        source: &(impl ReadAt + ?Sized),
        table: &Table,
        index: u64,
        file_len: u64,
    ) -> Result<Option<Names>, ImageError> {
        if index == 0 || index >= table.count {
            return Ok(None);
        }
        let batch = read_batch(source, table, file_len, index)?;
        let Some(section) = batch.first().map(Section::from) else {
            return Ok(None);
        };
        let len = section.file_size().min(1 << 16);
        let names = read_range(source, section.offset, len, file_len, "the section names")?;
        Ok(Some(Names(names)))
    }

    /// The name of a section, without its NUL.
    pub(crate) fn of(&self, header: &SectionHeader64<LE>) -> &[u8] {
        let at = usize::try_from(header.sh_name.get(LE)).ok();
        at.and_then(|at| self.0.get(at..))
            .and_then(|name| name.split(|byte| *byte == 0).next())
            .unwrap_or_default()
    }
}
