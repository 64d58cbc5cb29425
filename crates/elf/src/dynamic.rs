//! The requests of an image to the dynamic loader.

use object::elf;
use serde::Serialize;

use crate::error::ImageError;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// The names in PT_INTERP and PT_DYNAMIC, as bytes: paths need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Dependencies {
    /// PT_INTERP: the path of the dynamic loader.
    pub interpreter: Option<Vec<u8>>,
    /// DT_SONAME.
    pub soname: Option<Vec<u8>>,
    /// DT_NEEDED, in order.
    pub needed: Vec<Vec<u8>>,
    /// DT_RPATH, colon-separated.
    pub rpath: Option<Vec<u8>>,
    /// DT_RUNPATH, colon-separated. DT_RPATH counts only without it (gABI, dynamic linking).
    pub runpath: Option<Vec<u8>>,
    /// DF_1_NODEFLIB: the default directories are not searched.
    pub no_default_paths: bool,
}

/// A longer name is malformed: PATH_MAX is 4096, and search paths hold several paths.
const MAX_NAME: u64 = 1 << 16;
/// A longer PT_INTERP is malformed (PATH_MAX).
const MAX_INTERPRETER: u64 = 4096;

impl Dependencies {
    /// Reads the names in the headers of `image`, which was read from the same `source`.
    pub fn read(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
    ) -> Result<Dependencies, ImageError> {
        let strings = StringTable::of(image);
        let name = |at: u64| {
            strings
                .as_ref()
                .map(|table| table.get(source, at))
                .transpose()
        };
        let one = |tag| {
            image
                .dynamic_value(tag)
                .and_then(|at| name(at).transpose())
                .transpose()
        };
        let needed = image
            .dynamic
            .iter()
            .filter(|(tag, _)| *tag == elf::DT_NEEDED.0);
        let flags_1 = image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0);
        Ok(Dependencies {
            interpreter: interpreter(source, image)?,
            soname: one(elf::DT_SONAME)?,
            needed: needed
                .filter_map(|(_, at)| name(*at).transpose())
                .collect::<Result<_, _>>()?,
            rpath: one(elf::DT_RPATH)?,
            runpath: one(elf::DT_RUNPATH)?,
            no_default_paths: flags_1 & elf::DF_1_NODEFLIB.0 != 0,
        })
    }
}

impl Image {
    /// Whether one of `names` is among the names that the dynamic loader deals with: symbols that
    /// are imported or exported, libraries that are needed. At most 16 MiB of them are looked at.
    pub fn mentions(
        &self,
        source: &(impl ReadAt + ?Sized),
        names: &[&[u8]],
    ) -> Result<bool, ImageError> {
        const MOST: u64 = 16 << 20;
        let Some(table) = StringTable::of(self) else {
            return Ok(false);
        };
        let len = table.len.min(MOST);
        let bytes = read_range(source, table.offset, len, self.file_len, "DT_STRTAB")?;
        Ok(bytes
            .split(|byte| *byte == 0)
            .any(|name| names.contains(&name)))
    }
}

fn interpreter(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
) -> Result<Option<Vec<u8>>, ImageError> {
    let Some(header) = image.header(elf::PT_INTERP) else {
        return Ok(None);
    };
    if header.filesz > MAX_INTERPRETER {
        return Err(ImageError::Unsupported("PT_INTERP longer than a path"));
    }
    let bytes = read_range(
        source,
        header.offset,
        header.filesz,
        image.file_len,
        "PT_INTERP",
    )?;
    Ok(Some(until_nul(&bytes).to_vec()))
}

/// DT_STRTAB and DT_STRSZ as a range of the file.
struct StringTable {
    offset: u64,
    len: u64,
    file_len: u64,
}

impl StringTable {
    fn of(image: &Image) -> Option<StringTable> {
        Some(StringTable {
            offset: image.file_offset(image.dynamic_value(elf::DT_STRTAB)?)?,
            len: image.dynamic_value(elf::DT_STRSZ)?,
            file_len: image.file_len,
        })
    }

    fn get(&self, source: &(impl ReadAt + ?Sized), at: u64) -> Result<Vec<u8>, ImageError> {
        const WHAT: &str = "a name in DT_STRTAB";
        let left = self
            .len
            .checked_sub(at)
            .ok_or(ImageError::Truncated(WHAT))?;
        let start = self
            .offset
            .checked_add(at)
            .ok_or(ImageError::Truncated(WHAT))?;
        let len = left.min(MAX_NAME).min(self.file_len.saturating_sub(start));
        // Most names are short, so a little is read first, and more only if it holds no end.
        for len in [len.min(128), len] {
            let bytes = read_range(source, start, len, self.file_len, WHAT)?;
            if bytes.contains(&0) {
                return Ok(until_nul(&bytes).to_vec());
            }
        }
        Err(ImageError::Malformed("a name in DT_STRTAB does not end"))
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
