//! The section headers of an image, read a few at a time.

use object::elf;

use crate::encoding::{Entry, Fields};
use crate::error::ImageError;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// One section header, unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Section {
    /// sh_name.
    pub(crate) name: u32,
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
    /// sh_link.
    pub(crate) link: u32,
    /// sh_info.
    pub(crate) info: u32,
    /// sh_addralign, bytes.
    pub(crate) align: u64,
    /// sh_entsize, bytes.
    pub(crate) entry_size: u64,
}

impl Entry for Section {
    const SIZES: [u64; 2] = [40, 64];

    fn visit(&mut self, fields: &mut impl Fields) {
        fields.word(&mut self.name);
        fields.word(&mut self.sh_type);
        fields.wide(&mut self.flags);
        fields.wide(&mut self.addr);
        fields.wide(&mut self.offset);
        fields.wide(&mut self.size);
        fields.word(&mut self.link);
        fields.word(&mut self.info);
        fields.wide(&mut self.align);
        fields.wide(&mut self.entry_size);
    }
}

impl Section {
    /// Whether the section takes part in the memory image.
    pub(crate) fn is_allocated(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Whether the section lies in a PT_LOAD of `image`, or in several of which each continues the one
    /// before, at the file offset that its address implies.
    pub(crate) fn is_loaded(&self, image: &Image) -> bool {
        let Some(end) = self.addr.checked_add(self.file_size()) else {
            return false;
        };
        let delta = self.addr.wrapping_sub(self.offset);
        let spans = image
            .segments
            .iter()
            .filter(|segment| segment.vaddr.wrapping_sub(segment.offset) == delta)
            .map(|segment| segment.file_backed());
        // The first address that is not known to be loaded, in ascending order of the PT_LOADs.
        let first = spans.clone().find(|span| span.contains(self.addr));
        let loaded = spans.fold(first.map_or(self.addr, |span| span.end), |at, span| {
            if span.start == at { span.end } else { at }
        });
        self.is_allocated() && first.is_some() && end <= loaded
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

/// Section headers `first..first + BATCH` of `image`, which was read from `source`, as far as they
/// exist.
pub(crate) fn read_batch(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    first: u64,
) -> Result<Vec<Section>, ImageError> {
    const WHAT: &str = "the section headers";
    let table = &image.section_table;
    let size = image.encoding.size_of::<Section>();
    let count = BATCH.min(table.count.saturating_sub(first));
    let start = first
        .checked_mul(size)
        .and_then(|skipped| table.offset.checked_add(skipped))
        .ok_or(ImageError::Truncated(WHAT))?;
    let bytes = read_range(source, start, count * size, image.file_len, WHAT)?;
    Ok(image.encoding.decode_all(&bytes))
}

/// Calls `each` with the index and header of every section of `image`, up to the first error.
pub(crate) fn for_each_section<E: From<ImageError>>(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    mut each: impl FnMut(u64, Section) -> Result<(), E>,
) -> Result<(), E> {
    let mut index = 0;
    while index < image.section_table.count {
        for header in read_batch(source, image, index)? {
            each(index, header)?;
            index += 1;
        }
    }
    Ok(())
}

/// The names of sections.
pub(crate) struct Names(Vec<u8>);

impl Names {
    /// Reads the section of `image` that holds the names; `None` if the file has none. Names beyond
    /// its first 64 KiB read as empty.
    pub(crate) fn read(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
    ) -> Result<Option<Names>, ImageError> {
        let index = image.section_names;
        if index == 0 || index >= image.section_table.count {
            return Ok(None);
        }
        let batch = read_batch(source, image, index)?;
        let Some(section) = batch.first() else {
            return Ok(None);
        };
        let len = section.file_size().min(1 << 16);
        let names = read_range(
            source,
            section.offset,
            len,
            image.file_len,
            "the section names",
        )?;
        Ok(Some(Names(names)))
    }

    /// The name of a section, without its NUL.
    pub(crate) fn of(&self, section: &Section) -> &[u8] {
        let at = usize::try_from(section.name).ok();
        at.and_then(|at| self.0.get(at..))
            .and_then(|name| name.split(|byte| *byte == 0).next())
            .unwrap_or_default()
    }
}
