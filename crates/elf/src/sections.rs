//! The section headers of an image, and the names of its sections. They are read once, with the image.

use crate::encoding::Encoding;
use crate::error::ImageError;
use crate::headers::Table;
use crate::section::Section;
use crate::source::{ReadAt, read_range};

/// A file with more sections is refused: linked files have a few dozen, and each takes memory here.
const MOST: u64 = 1 << 16;

/// The sections of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sections {
    headers: Vec<Section>,
    names: Names,
}

/// The names of sections. Names beyond the first 64 KiB read as empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Names {
    /// The file has none.
    #[default]
    None,
    /// The file ends before they do.
    Truncated,
    /// The section that holds them.
    Read(Vec<u8>),
}

impl Sections {
    /// Reads the section headers `table`. Section `names` holds the names; 0 for none.
    pub(crate) fn read(
        source: &(impl ReadAt + ?Sized),
        encoding: Encoding,
        table: &Table,
        names: u64,
        file_len: u64,
    ) -> Result<Sections, ImageError> {
        const WHAT: &str = "the section headers";
        if table.count > MOST {
            return Err(ImageError::Unsupported("more than 65536 sections"));
        }
        let len = table.count * encoding.size_of::<Section>();
        let bytes = read_range(source, table.offset, len, file_len, WHAT)?;
        let headers: Vec<Section> = encoding.decode_all(&bytes);
        let holder = usize::try_from(names).ok().filter(|index| *index > 0);
        let names = match holder.and_then(|index| headers.get(index)) {
            None => Names::None,
            Some(section) => Names::read(source, section, file_len)?,
        };
        Ok(Sections { headers, names })
    }

    /// Each section with its index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Section)> {
        (0..).zip(&self.headers)
    }

    /// Those from `index` on.
    pub(crate) fn from(&self, index: u64) -> &[Section] {
        let index = usize::try_from(index).ok();
        let from = index.and_then(|index| self.headers.get(index..));
        from.unwrap_or_default()
    }

    /// The names of the sections; without any, each is empty.
    pub(crate) fn names(&self) -> Result<SectionNames<'_>, ImageError> {
        match &self.names {
            Names::None => Ok(SectionNames(&[])),
            Names::Truncated => Err(ImageError::Truncated("the section names")),
            Names::Read(bytes) => Ok(SectionNames(bytes)),
        }
    }
}

impl Names {
    fn read(
        source: &(impl ReadAt + ?Sized),
        section: &Section,
        file_len: u64,
    ) -> Result<Names, ImageError> {
        let len = section.file_size().min(1 << 16);
        match read_range(source, section.offset, len, file_len, "the section names") {
            Ok(bytes) => Ok(Names::Read(bytes)),
            Err(ImageError::Truncated(_)) => Ok(Names::Truncated),
            Err(error) => Err(error),
        }
    }
}

/// The names of sections that could be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionNames<'s>(&'s [u8]);

impl<'s> SectionNames<'s> {
    /// The name of a section, without its NUL.
    pub(crate) fn of(self, section: &Section) -> &'s [u8] {
        let at = usize::try_from(section.name).ok();
        at.and_then(|at| self.0.get(at..))
            .and_then(|name| name.split(|byte| *byte == 0).next())
            .unwrap_or_default()
    }
}
