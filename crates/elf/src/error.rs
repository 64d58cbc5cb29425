//! Why a file is not an image.

use std::io;

use hugetext_leaf::SegmentError;

/// Why a file is not an image that this project can read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// Neither ELFCLASS32 nor ELFCLASS64.
    #[error("an ELF file of neither 32 nor 64 bits")]
    Class,
    /// Neither ELFDATA2LSB nor ELFDATA2MSB.
    #[error("an ELF file of neither byte order")]
    Endian,
    /// ET_REL, ET_CORE or unknown.
    #[error("an ELF file, but not an executable or shared object (e_type {0})")]
    Type(u16),
    /// A table or segment reaches beyond the end of the file.
    #[error("truncated: the file ends before the end of {0}")]
    Truncated(&'static str),
    /// A header is contradictory or out of bounds.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Valid, but beyond what is read here.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// A PT_LOAD is contradictory, or beyond what is read here.
    #[error("{fault}: {0}", fault = segment_fault(.0))]
    Segment(#[from] SegmentError),
    /// Two PT_LOADs overlap, or they are not in ascending order (gABI, program header). Linux loads such files.
    #[error("not supported: PT_LOADs at {0:#x} and {1:#x} overlap or are not in order")]
    Overlap(u64, u64),
    /// The sections of its text have no bytes (SHT_NOBITS): it is what eu-strip and objcopy keep of a program for
    /// debuggers.
    #[error("no program, but debug information of one: its text has no bytes here")]
    DebugInformation,
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl ImageError {
    /// Whether the file is plainly not a program, as opposed to a damaged one. A scan of a
    /// directory skips such files silently.
    pub fn is_no_program(&self) -> bool {
        matches!(
            self,
            Self::NotElf | Self::Class | Self::Endian | Self::Type(_) | Self::DebugInformation
        )
    }
}

fn segment_fault(error: &SegmentError) -> &'static str {
    match error {
        SegmentError::TooLarge { .. } => "not supported",
        SegmentError::FileSizeAboveMemorySize { .. } | SegmentError::Alignment { .. } => {
            "malformed"
        }
    }
}
