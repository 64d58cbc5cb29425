//! One section header.

use hugetext_leaf::Segment;
use object::elf;

use crate::encoding::{Entry, Fields};

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

    /// Whether the section lies in one of the PT_LOADs `segments`, or in several of which each continues the one
    /// before, at the file offset that its address implies.
    pub(crate) fn is_loaded(&self, segments: &[Segment]) -> bool {
        let Some(end) = self.addr.checked_add(self.file_size()) else {
            return false;
        };
        let delta = self.addr.wrapping_sub(self.offset);
        let spans = segments
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
