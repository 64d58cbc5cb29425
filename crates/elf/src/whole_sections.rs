//! The sections that no cut may divide.
//!
//! Tools read symbols, strings, relocations and unwind information by their section, and would find
//! a part of each. Code and read-only data they read by address, in whichever section that lies.

use hugetext_leaf::Span;
use object::elf;

use crate::error::ImageError;
use crate::image::Image;
use crate::sections::{Names, Section, for_each_section};
use crate::source::ReadAt;

/// The loaded sections of a file that must stay whole.
#[derive(Debug, Default)]
pub(crate) struct WholeSections {
    /// In ascending order of addresses. Those of linkers do not overlap.
    sections: Vec<WholeSection>,
}

#[derive(Debug)]
struct WholeSection {
    addresses: Span,
    index: u64,
}

impl WholeSections {
    pub(crate) fn read(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
    ) -> Result<WholeSections, ImageError> {
        let names = Names::read(source, image)?;
        let mut sections = Vec::new();
        for_each_section(source, image, |index, section| {
            let name = names.as_ref().map_or(&b""[..], |names| names.of(&section));
            if section.is_loaded(image) && section.file_size() > 0 && !is_divisible(&section, name)
            {
                let end = section.addr.saturating_add(section.size);
                let addresses = Span::new(section.addr, end);
                sections.push(WholeSection { addresses, index });
            }
            Ok::<_, ImageError>(())
        })?;
        sections.sort_unstable_by_key(|section| section.addresses.start);
        Ok(WholeSections { sections })
    }

    /// The index of the section that a cut at this address divides.
    pub(crate) fn divided_at(&self, address: u64) -> Option<u64> {
        let before = |section: &WholeSection| section.addresses.start < address;
        let first_behind = self.sections.partition_point(before);
        let last = self.sections.get(first_behind.checked_sub(1)?)?;
        (address < last.addresses.end).then_some(last.index)
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
