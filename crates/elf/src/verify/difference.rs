//! How two files may differ, and how they may not.

use std::io;

use hugetext_leaf::{Perms, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ImageError;

/// The permitted differences between two files that are the same program.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct Verified {
    /// Addresses whose access rights differ. Only the addition of execution to read-only
    /// addresses is ever listed; any other change is a [`Difference`].
    pub permissions: Vec<PermissionChange>,
    /// Addresses that only the new file maps. They hold zeros, or the bytes that the last page of the
    /// segment before them already showed there.
    pub added: Vec<Span>,
}

/// A change of access rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PermissionChange {
    /// The addresses, relative to the image.
    pub addresses: Span,
    /// The rights in the old file.
    pub from: Perms,
    /// The rights in the new file.
    pub to: Perms,
}

/// Why two files are not the same program, or cannot be verified to be.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// The old file cannot be read.
    #[error("the old file: {0}")]
    Old(ImageError),
    /// The new file cannot be read.
    #[error("the new file: {0}")]
    New(ImageError),
    /// Reading failed half-way.
    #[error("reading: {0}")]
    Read(#[from] io::Error),
    /// A field of the ELF header differs, other than the offsets of the tables.
    #[error("the ELF headers differ in {0}")]
    FileHeader(&'static str),
    /// A program header other than PT_LOAD differs.
    #[error(
        "program header {index} (of those that are neither PT_LOAD nor PT_NULL) differs in {what}"
    )]
    ProgramHeader {
        /// Its index among those that are neither PT_LOAD nor PT_NULL.
        index: usize,
        /// The difference.
        what: &'static str,
    },
    /// A PT_LOAD that loaders would treat in another way.
    #[error("the PT_LOAD at {vaddr:#x} {what}")]
    Load {
        /// p_vaddr in the new file.
        vaddr: u64,
        /// The difference.
        what: &'static str,
    },
    /// An address that only the old file maps.
    #[error("address {0:#x} is no longer mapped")]
    Unmapped(u64),
    /// Access rights differ by more than execution added to read-only data.
    #[error("address {address:#x} changes from {from} to {to}")]
    Permissions {
        /// The first such address.
        address: u64,
        /// The rights in the old file.
        from: Perms,
        /// The rights in the new file.
        to: Perms,
    },
    /// Bytes differ.
    #[error("{what} differs at offset {offset:#x} of the old file")]
    Bytes {
        /// The part of the file that the bytes belong to.
        what: &'static str,
        /// Offset in the old file.
        offset: u64,
    },
    /// Bytes that must be zero in memory are not.
    #[error("address {0:#x} should be zero")]
    NotZero(u64),
    /// The ELF header or the program header table is loaded at another address.
    #[error("{0} is loaded at another address")]
    TableMoved(&'static str),
    /// A section differs, or the number of sections.
    #[error("section {index} differs in {what}")]
    Section {
        /// Its index.
        index: u64,
        /// The difference.
        what: &'static str,
    },
    /// Bytes that no header names have moved or changed.
    #[error(
        "bytes {:#x}..{:#x} of the {file} file, which no header names, are not in the other file at the same offset",
        .range.start, .range.end
    )]
    Unnamed {
        /// The file that has them: `old` or `new`.
        file: &'static str,
        /// Their offsets.
        range: Span,
    },
    /// Data after the image has moved.
    #[error("data after the ELF image has moved")]
    Appended,
}
