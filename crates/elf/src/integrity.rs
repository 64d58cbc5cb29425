//! Whether an image carries a checksum of its own file.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::NoteIterator;

use crate::encoding::ByteOrder;
use crate::error::ImageError;
use crate::image::Image;
use crate::source::{ReadAt, read_range};

/// The note that libgcrypt compares with its own file in FIPS mode (`.note.fdo.integrity`).
const OWNER: &[u8] = b"FDO";
const NT_FDO_INTEGRITY: u32 = 0xcafe_2a8e;

/// What is longer in all is not looked at; the largest seen have a few hundred bytes.
const MAX_NOTES: u64 = 1 << 20;

impl Image {
    /// Whether the program, read from the same `source`, has a note for checking its own file.
    pub fn checks_itself(&self, source: &(impl ReadAt + ?Sized)) -> Result<bool, ImageError> {
        let order = match self.encoding.order {
            ByteOrder::LittleEndian => Endianness::Little,
            ByteOrder::BigEndian => Endianness::Big,
        };
        let notes = self.headers.iter().filter(|h| h.p_type == elf::PT_NOTE.0);
        let mut left = MAX_NOTES;
        for header in notes {
            let Some(rest) = left.checked_sub(header.filesz) else {
                continue;
            };
            left = rest;
            let bytes = read_range(
                source,
                header.offset,
                header.filesz,
                self.file_len,
                "PT_NOTE",
            )?;
            // Notes are the same in both classes (gABI, note section).
            let notes = NoteIterator::<FileHeader64<Endianness>>::new(order, header.align, &bytes);
            let mut notes = notes.into_iter().flatten().filter_map(Result::ok);
            if notes.any(|note| note.name() == OWNER && note.n_type(order).0 == NT_FDO_INTEGRITY) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
