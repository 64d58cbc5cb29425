//! A rewrite, decided: the value that prints, and why there may be none.

use hugetext_leaf::{Bias, Leaf, Segment, Span, reach};
use serde::Serialize;

use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::{Move, shift_at};
use crate::options::Strategy;

/// A rewrite, decided. The new file is the old one with `moves` carried out and its header tables
/// replaced; what no move covers is a hole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The weakest strategy that does all of this.
    pub strategy: Strategy,
    /// The leaf it is made for.
    pub leaf: Leaf,
    /// The new PT_LOADs.
    pub segments: Vec<Segment>,
    /// The new program headers, as many as the old ones; merging turns some into PT_NULL.
    pub headers: Vec<ProgramHeader>,
    /// For each PT_LOAD of the old file, how far its bytes move (bytes, towards the end).
    pub shifts: Vec<u64>,
    /// The old file, cut into ranges that move by one distance each, in order.
    pub moves: Vec<Move>,
    /// e_phoff of the new file.
    pub program_table: u64,
    /// e_shoff of the new file; 0 if there is none.
    pub section_table: u64,
    /// Length of the new file in bytes, holes included.
    pub file_len: u64,
    /// What it costs.
    pub cost: Cost,
    /// What a user should know first.
    pub warnings: Vec<Warning>,
}

/// What a plan costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// Bytes the file becomes longer, holes included.
    pub apparent: u64,
    /// Bytes of disk it takes in addition, at most: blocks that a cut divides.
    pub disk: u64,
    /// Bytes of page cache, at most, that hold nothing but zeros once the text is in leaves.
    pub memory: u64,
    /// Bits of load address randomness that the larger alignment takes.
    pub aslr_bits: u32,
}

/// What a plan changes beyond the place of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// Read-only data becomes executable.
    BecomesExecutable {
        /// Its addresses in the image.
        addresses: Span,
    },
    /// The program header table lies in a segment that moves otherwise than the first one. Kernels
    /// before 5.18 compute AT_PHDR from the first one (binfmt_elf.c, load_elf_binary()).
    ProgramHeadersMove,
}

/// Why no plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// No PT_LOAD with PF_X has file bytes.
    #[error("no text")]
    NoText,
    /// No text segment holds a window.
    #[error("no text segment holds a window of {leaf}")]
    Small {
        /// The leaf.
        leaf: Leaf,
    },
    /// All text that holds windows is writable as well.
    #[error("the text is writable")]
    Writable,
    /// `Align` was asked for and no text is congruent.
    #[error(
        "incongruent: address and file offset differ by {by:#x} modulo {leaf}; shift mends that"
    )]
    Incongruent {
        /// (p_vaddr − p_offset) mod leaf, in bytes.
        by: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// The incongruent text holds the ELF header, which must stay at offset 0.
    #[error("the text begins with the ELF header, whose address {vaddr:#x} is not {leaf}-aligned")]
    Pinned {
        /// p_vaddr.
        vaddr: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// Loaders align the address of the first PT_LOAD, not the load bias; both are the same only
    /// if p_vaddr of the first is aligned.
    #[error("the image begins at {vaddr:#x}, so loaders do not place it {leaf}-aligned")]
    FirstAddress {
        /// p_vaddr of the first PT_LOAD.
        vaddr: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// The file has data after everything its headers name.
    #[error(
        "{bytes} B follow the ELF image; a program that reads itself by file offset would no longer find them"
    )]
    AppendedData {
        /// How many.
        bytes: u64,
    },
    /// A PT_LOAD cannot be mapped with the base page: the file was linked for smaller ones.
    #[error(
        "linked for pages smaller than {page}: the PT_LOAD at {vaddr:#x} cannot be mapped by them"
    )]
    Page {
        /// p_vaddr.
        vaddr: u64,
        /// The base page.
        page: Leaf,
    },
    /// Two PT_LOADs share bytes of the file, so they cannot move apart.
    #[error("the PT_LOADs at {first:#x} and {second:#x} share bytes of the file")]
    FileOverlap {
        /// p_vaddr of the one that begins first in the file.
        first: u64,
        /// p_vaddr of the other.
        second: u64,
    },
    /// DT_TEXTREL or DF_TEXTREL: the loader writes to the text, which makes it private memory.
    #[error("text relocations: the loader writes to the text, so it is private memory")]
    TextRelocations,
    /// Header tables share bytes of the file with each other or with the ELF header.
    #[error("the header tables share bytes of the file")]
    TablesOverlap,
    /// A program header names bytes that the file does not have.
    #[error("a program header names bytes beyond the end of the file")]
    BeyondEnd,
    /// A header table would be cut in two.
    #[error("{what} spans two segments that would move apart")]
    Torn {
        /// Which.
        what: &'static str,
    },
    /// The new file would be longer than any filesystem holds.
    #[error("the new file would be longer than 2^56 bytes")]
    TooLong,
}

impl Refusal {
    /// Whether the file must not be rewritten, rather than that nothing would be gained.
    pub fn forbids(&self) -> bool {
        matches!(
            self,
            Refusal::AppendedData { .. }
                | Refusal::FileOverlap { .. }
                | Refusal::TextRelocations
                | Refusal::TablesOverlap
                | Refusal::BeyondEnd
        )
    }
}

impl Plan {
    /// Whether the file is as it should be already.
    pub fn is_noop(&self, image: &Image) -> bool {
        self.headers == image.headers && self.file_len == image.file_len && self.moves.len() == 1
    }

    /// How far the byte at `offset` of the old file moves, in bytes.
    pub(crate) fn shift_at(&self, offset: u64) -> u64 {
        shift_at(&self.moves, offset)
    }

    /// Bytes of the text of `image` that will lie in windows of a mapping that is aligned as the
    /// plan asks.
    pub fn reached(&self, image: &Image, page: Leaf) -> u64 {
        self.reached_at(image, page, Bias::aligned(self.leaf))
    }

    /// The same at a load bias of which `bias` is known. What a merge or an extension makes
    /// executable is not text of the program, so it does not count.
    pub fn reached_at(&self, image: &Image, page: Leaf, bias: Bias) -> u64 {
        let reach = reach(&self.segments, page, self.leaf, bias);
        let text = || image.segments.iter().filter(|segment| segment.is_text());
        // Two text segments of one mapping name the same windows.
        let mut windows: Vec<Span> = reach.segments.iter().map(|found| found.windows).collect();
        windows.dedup();
        windows
            .iter()
            .flat_map(|windows| text().map(|s| s.file_backed().intersect(windows).len()))
            .sum()
    }
}
