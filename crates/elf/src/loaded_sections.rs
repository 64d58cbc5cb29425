//! The sections of the memory image, by their addresses, and which of them no cut may divide.
//!
//! Tools read symbols, strings, relocations and unwind information by their section, and would find
//! a part of each. Code and read-only data they read by address, in whichever section that lies.

use hugetext_leaf::{Leaf, Span};
use object::elf;

use crate::error::ImageError;
use crate::image::Image;
use crate::section::Section;

/// The sections of the memory image, by their addresses.
#[derive(Debug)]
pub(crate) struct LoadedSections {
    /// All, in ascending order of their begins.
    all: Vec<Span>,
    /// Those that must stay whole, in ascending order. Sections of linkers do not overlap.
    whole: Vec<Span>,
}

impl LoadedSections {
    pub(crate) fn of(image: &Image) -> Result<LoadedSections, ImageError> {
        let names = image.sections.names()?;
        let (mut all, mut whole) = (Vec::new(), Vec::new());
        for (_, section) in image.sections.iter().filter(|(_, s)| s.is_allocated()) {
            let addresses = Span::new(section.addr, section.addr.saturating_add(section.size));
            all.push(addresses);
            let has_bytes = section.file_size() > 0 && section.is_loaded(&image.segments);
            if has_bytes && !is_divisible(section, names.of(section)) {
                whole.push(addresses);
            }
        }
        all.sort_unstable_by_key(|section| section.start);
        whole.sort_unstable_by_key(|section| section.start);
        Ok(LoadedSections { all, whole })
    }

    /// Whether a cut at this address divides a section that must stay whole.
    pub(crate) fn forbid_cut_at(&self, address: u64) -> bool {
        let behind = self
            .whole
            .partition_point(|section| section.start < address);
        let before = self.whole[..behind].last();
        before.is_some_and(|section| address < section.end)
    }

    /// The end of the longest range from `start` on, up to `end`, that holds no section wholly, and ends with a page of
    /// so many bytes or at `end`.
    pub(crate) fn holding_none(&self, start: u64, end: u64, page: Leaf) -> u64 {
        let from = self.all.partition_point(|section| section.start < start);
        let behind = self.all.get(from..).unwrap_or_default();
        let first = behind.iter().map(|section| section.end).min();
        match first.filter(|first| *first <= end) {
            Some(first) => page.align_down(first.saturating_sub(1)),
            None => end,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_ends_before_a_section_does_that_begins_in_it() {
        let spans = [(0x1000, 0x9100), (0x9100, 0x9200), (0xa000, 0xf000)];
        let sections = LoadedSections {
            all: spans.map(|(start, end)| Span::new(start, end)).to_vec(),
            whole: Vec::new(),
        };
        assert_eq!(sections.holding_none(0x2000, 0x9100, Leaf::K4), 0x9100);
        assert_eq!(sections.holding_none(0x2000, 0xf000, Leaf::K4), 0x9000);
        assert_eq!(sections.holding_none(0xa100, 0xf000, Leaf::K4), 0xf000);
    }
}
