//! The reasons that no plan may exist.

use hugetext_leaf::{Leaf, Span};
use schemars::JsonSchema;
use serde::Serialize;

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
    /// A PT_LOAD repeats a part of the text, and the layout would change: the file warms itself already.
    #[error(
        "a PT_LOAD repeats a part of the text, as --self-warming has it; fix the file of before instead"
    )]
    Repeats,
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
