//! The plan of a rewrite, and the reasons that no plan may exist.

use hugetext_leaf::{Bias, Leaf, Segment, Span, reach};
use schemars::JsonSchema;
use serde::Serialize;

use crate::encoding::{Encoding, Overflow};
use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::{Move, shift_at};
use crate::options::Strategy;
use crate::self_warming::SectionCut;
use crate::verify::Verified;

/// A decided rewrite. The new file is the old one after `moves`, with new header tables. A range
/// that no move covers is a hole.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The weakest strategy that includes all the changes.
    pub strategy: Strategy,
    /// The leaf that the layout is for.
    pub leaf: Leaf,
    /// How the numbers of both files are written.
    #[serde(skip)]
    pub encoding: Encoding,
    /// The new PT_LOADs.
    pub segments: Vec<Segment>,
    /// The new program headers. They are as many as the old ones, unless a cut uses room behind the
    /// table; merging turns some into PT_NULL.
    pub headers: Vec<ProgramHeader>,
    /// The distance in bytes that each PT_LOAD of the old file moves towards the end.
    pub shifts: Vec<u64>,
    /// The old file, cut into ranges that each move by one distance, in order.
    pub moves: Vec<Move>,
    /// e_phoff of the new file.
    pub program_table: u64,
    /// e_shoff of the new file; 0 if there is none.
    pub section_table: u64,
    /// The sections that are cut in two with their PT_LOAD, in the order of their indexes.
    pub sections_cut: Vec<SectionCut>,
    /// Length of the new file in bytes, holes included.
    pub file_len: u64,
    /// The cost.
    pub cost: Cost,
    /// Facts that the user should know first.
    pub warnings: Vec<Warning>,
}

/// The cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct Cost {
    /// Bytes added to the file, holes included.
    pub apparent: u64,
    /// Bytes of disk added, at most: blocks that a cut divides.
    pub disk: u64,
    /// Bytes of page cache, at most, that hold only zeros when the text is in leaves.
    pub memory: u64,
    /// Bits of load address randomness lost to the larger alignment.
    pub aslr_bits: u32,
}

/// A change of a plan other than the offsets of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// Read-only data becomes executable.
    BecomesExecutable {
        /// Its addresses in the image.
        addresses: Span,
    },
    /// The program header table lies in a segment that moves by another distance than the first
    /// one. Kernels before 5.18 compute AT_PHDR from the first segment (binfmt_elf.c,
    /// load_elf_binary()).
    ProgramHeadersMove,
    /// PT_LOADs of writable data become one, so that the header of another gives its place to a cut PT_LOAD. The
    /// page that alignment left between them is mapped too.
    DataJoined {
        /// Its addresses in the image, without those of zeros at its end.
        addresses: Span,
    },
    /// A program header gives its place to a cut PT_LOAD. It is a PT_NOTE that PT_GNU_PROPERTY
    /// repeats, or PT_PHDR of an image that loaders place without it.
    LeftOut {
        /// p_type.
        p_type: u32,
    },
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The file does not permit it.
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

impl From<Overflow> for PlanError {
    fn from(_: Overflow) -> PlanError {
        let most = u64::from(u32::MAX);
        Refusal::TooLarge { most }.into()
    }
}

/// Why no plan exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, JsonSchema, Serialize)]
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
    /// All text that holds windows is also writable.
    #[error("the text is writable")]
    Writable,
    /// Only `Align` was permitted and no text is congruent.
    #[error(
        "incongruent: address and file offset differ by {by:#x} modulo {leaf}; strategy shift corrects that"
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
    /// Loaders align the address of the first PT_LOAD, not the load bias. Both agree only if
    /// p_vaddr of the first PT_LOAD is aligned.
    #[error("the image begins at {vaddr:#x}, so loaders do not place it {leaf}-aligned")]
    FirstAddress {
        /// p_vaddr of the first PT_LOAD.
        vaddr: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// The file has data after everything that its headers name.
    #[error(
        "{bytes} B follow the ELF image; a program that reads itself by file offset would no longer find them"
    )]
    AppendedData {
        /// The number of bytes.
        bytes: u64,
    },
    /// A PT_LOAD cannot be mapped with the base page: the file was linked for smaller pages.
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
    /// PT_LOADs that would become one have bits of p_flags whose meaning is unknown here.
    #[error(
        "the PT_LOAD at {vaddr:#x} has flags of unknown meaning, which one PT_LOAD of several would spread or lose"
    )]
    UnknownFlags {
        /// p_vaddr.
        vaddr: u64,
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
        /// The table.
        what: &'static str,
    },
    /// A cut PT_LOAD needs a program header, and the table has no room for one.
    #[error(
        "no room for a program header: none is unused or repeated, no data segments can be joined, and no zeros follow the table"
    )]
    NoRoom,
    /// The indexes of further sections would not fit the symbol table (SHN_LORESERVE).
    #[error("too many sections to add one")]
    ManySections,
    /// The section header table has no room for another section.
    #[error("the section header table is not at the end of the file, so no section can be added")]
    SectionTable,
    /// A section that would be cut has relocations for linking once more, which name it as a whole.
    #[error(
        "section {index} keeps relocations (-q, --emit-relocs), which name it as a whole, so it cannot be cut"
    )]
    Relocations {
        /// Its index.
        index: u64,
    },
    /// A section would have to be cut where it cannot be.
    #[error("section {index} cannot be cut at {at:#x}")]
    SectionAt {
        /// Its index.
        index: u64,
        /// The address.
        at: u64,
    },
    /// The content of a section would be divided, or would leave the segment that loads it.
    #[error("section {index} spans segments that would move apart")]
    TornSection {
        /// Its index.
        index: u64,
    },
    /// A section has bytes that the file does not have.
    #[error("section {index} ends beyond the end of the file")]
    SectionBeyondEnd {
        /// Its index.
        index: u64,
    },
    /// Bytes of the file that no header names would become part of a merged segment.
    #[error("unknown data at offset {offset:#x}, between segments to be merged")]
    BetweenSegments {
        /// Where they begin in the file.
        offset: u64,
    },
    /// A section that is not loaded and has no known purpose. It may be data that the program finds
    /// in its own file.
    #[error(
        "section {name} ({bytes} B) would move, but may be data that the program reads from its own file by offset"
    )]
    Payload {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// Bytes that no header names. They may be data that the program finds in its own file.
    #[error(
        "bytes {:#x}..{:#x} of the file would move, but no header names them; the program may read them by offset",
        .range.start, .range.end
    )]
    Unnamed {
        /// Their offsets.
        range: Span,
    },
    /// The program compares its executable segments with a checksum, and they would change.
    #[error(
        "the program compares its text with a checksum in section {section}, and would find other segments or headers there"
    )]
    TextChecksum {
        /// The name of the section.
        section: &'static str,
    },
    /// The proof would fail.
    #[error("the result would not be provably the same program: {difference}")]
    NotTheSame {
        /// The first difference.
        difference: String,
    },
    /// An offset or address of the new file would be beyond what its headers, or any filesystem, hold.
    #[error("the new file would have offsets or addresses beyond {most:#x}")]
    TooLarge {
        /// The largest possible, bytes.
        most: u64,
    },
}

impl Refusal {
    /// Whether the file must not be rewritten, as opposed to gaining nothing.
    pub fn forbids(&self) -> bool {
        matches!(
            self,
            Refusal::AppendedData { .. }
                | Refusal::FileOverlap { .. }
                | Refusal::TextRelocations
                | Refusal::TablesOverlap
                | Refusal::BeyondEnd
                | Refusal::TornSection { .. }
                | Refusal::SectionBeyondEnd { .. }
                | Refusal::BetweenSegments { .. }
                | Refusal::Payload { .. }
                | Refusal::Unnamed { .. }
                | Refusal::TextChecksum { .. }
                | Refusal::NotTheSame { .. }
        )
    }
}

impl Plan {
    /// Whether the file already has the right layout.
    pub fn is_noop(&self, image: &Image) -> bool {
        self.headers == image.headers && self.file_len == image.file_len && self.moves.len() == 1
    }

    /// Whether all that verification found to differ is what the plan does: a merge changes rights and maps what lies
    /// between, and joined data maps what lies between.
    pub fn explains(&self, verified: &Verified) -> bool {
        let maps = |added: &Span| {
            self.warnings.iter().any(|warning| match warning {
                Warning::DataJoined { addresses } => addresses.intersect(added) == *added,
                _ => false,
            })
        };
        let is_mapped = verified.permissions.is_empty() && verified.added.iter().all(maps);
        self.strategy == Strategy::Merge || is_mapped
    }

    /// How far the byte at `offset` of the old file moves, in bytes.
    pub(crate) fn shift_at(&self, offset: u64) -> u64 {
        shift_at(&self.moves, offset)
    }

    /// Bytes of the text of `image` that will lie in windows of a mapping that is aligned as the
    /// plan requests.
    pub fn reached(&self, image: &Image, page: Leaf) -> u64 {
        self.reached_at(image, page, Bias::aligned(self.leaf))
    }

    /// The same at a load bias of which `bias` is known. Bytes that a merge or an extension makes
    /// executable are not text of the program, so they do not count.
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
