//! The sections that no cut may divide.
//!
//! Tools read symbols, strings, relocations and unwind information by their section, and would find
//! a part of each. Code and read-only data they read by address, in whichever section that lies.

use hugetext_leaf::Span;
use object::elf;

use crate::error::ImageError;
use crate::image::Image;
use crate::section::Section;

/// The loaded sections of a file that must stay whole.
#[derive(Debug, Default)]
pub(crate) struct WholeSections {
    /// Their addresses, in ascending order. Sections of linkers do not overlap.
    addresses: Vec<Span>,
}

impl WholeSections {
    pub(crate) fn of(image: &Image) -> Result<WholeSections, ImageError> {
        let names = image.sections.names()?;
        let mut addresses = Vec::new();
        for (_, section) in image.sections.iter() {
            let is_loaded = section.is_loaded(&image.segments);
            if is_loaded && section.file_size() > 0 && !is_divisible(section, names.of(section)) {
                let end = section.addr.saturating_add(section.size);
                addresses.push(Span::new(section.addr, end));
            }
        }
        addresses.sort_unstable_by_key(|section| section.start);
        Ok(WholeSections { addresses })
    }

    /// Whether a cut at this address divides one of them.
    pub(crate) fn are_divided_at(&self, address: u64) -> bool {
        let behind = self
            .addresses
            .partition_point(|section| section.start < address);
        let before = self.addresses[..behind].last();
        before.is_some_and(|section| address < section.end)
    }
}

/// The procedure linkage table has symbols by its position in the section (binutils'
/// `elf_x86_64_get_synthetic_symtab()`).
fn is_divisible(section: &Section, name: &[u8]) -> bool {
    let is_code = section.flags & elf::SHF_EXECINSTR.0 != 0 && !name.starts_with(b".plt");
    let is_data = section.sh_type == elf::SHT_PROGBITS.0
        && [&b".rodata"[..], b".lrodata"]
            .iter()
            .any(|data| name.starts_with(data));
    is_code || is_data
}
