//! Why a file is not an image.

use std::io;

use hugetext_leaf::SegmentError;

/// Why a file is not an image this project reads.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// ELFCLASS32 or an unknown class.
    #[error("not a 64-bit ELF file")]
    Class,
    /// ELFDATA2MSB.
    #[error("a big-endian ELF file; only little-endian ones are read")]
    Endian,
    /// ET_REL, ET_CORE or unknown.
    #[error("an ELF file, but no executable or shared object (e_type {0})")]
    Type(u16),
    /// A table or segment reaches beyond the end of the file.
    #[error("truncated: the file ends before the end of {0}")]
    Truncated(&'static str),
    /// A header says what cannot be.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A PT_LOAD says what cannot be.
    #[error("malformed: {0}")]
    Segment(#[from] SegmentError),
    /// Two PT_LOADs claim the same address, or they do not ascend (gABI, program header).
    #[error("malformed: PT_LOADs at {0:#x} and {1:#x} overlap or are not in order")]
    Overlap(u64, u64),
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl ImageError {
    /// Whether the file is plainly not a program, rather than a damaged one: what a scan of a
    /// directory passes over in silence.
    pub fn is_no_program(&self) -> bool {
        matches!(
            self,
            Self::NotElf | Self::Class | Self::Endian | Self::Type(_)
        )
    }
}
