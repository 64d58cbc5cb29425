//! Verifies that two files are the same program.
//!
//! This module shares the reader with the rewriter and nothing else: it knows no plan, no moves and no rule of
//! those who plan, and the test `crates/hugetext/tests/house.rs` holds that. It compares the two files from the view of a loader, a debugger and a linker.

mod bytes;
mod headers;
mod memory;
mod purpose;
mod sections;
mod unnamed;

use std::io;

use hugetext_leaf::{Leaf, Perms, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ImageError;
use crate::image::Image;
use crate::source::ReadAt;
use bytes::Comparer;

/// The smallest base page of all architectures that are read here.
const SMALLEST_PAGE: Leaf = Leaf::K4;

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

impl Verified {
    /// Whether every address has the same bytes and access rights and none was added.
    pub fn is_exact(&self) -> bool {
        self.permissions.is_empty() && self.added.is_empty()
    }
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

/// Compares the two files: bytes and access rights at every address, all headers, every section by
/// offset in its segment, name and content, and bytes that no header names by their offset. The
/// result holds for any load bias that is a multiple of every p_align.
///
/// Zeros and traps outside every PT_LOAD that share a page with one are not compared: loaders map
/// them, but they belong to no segment, and programs do not refer to them.
pub fn verify(
    old: &(impl ReadAt + ?Sized),
    new: &(impl ReadAt + ?Sized),
) -> Result<Verified, Difference> {
    verify_unshared(old, new, |_, _| Stretch::Unknown(u64::MAX))
}

/// Prior knowledge of the bytes of two files, from an offset in each file on. The lengths are
/// bytes, and not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// This many bytes are the same.
    Shared(u64),
    /// Nothing is known of this many bytes.
    Unknown(u64),
}

/// As [`verify`], but skips bytes that are known to be the same. `known` takes an offset in the old
/// file and one in the new file. A filesystem that shares blocks between files can answer it.
pub fn verify_unshared(
    old: &(impl ReadAt + ?Sized),
    new: &(impl ReadAt + ?Sized),
    known: impl Fn(u64, u64) -> Stretch,
) -> Result<Verified, Difference> {
    let old_image = Image::read(old).map_err(Difference::Old)?;
    let new_image = Image::read(new).map_err(Difference::New)?;
    let mut comparer = Comparer::new(old, &old_image, new, &new_image, &known);
    headers::file_header(&mut comparer)?;
    headers::program_headers(&mut comparer)?;
    headers::loads(&old_image, &new_image)?;
    let verified = memory::compare(&mut comparer)?;
    sections::compare(&mut comparer)?;
    unnamed::compare(&mut comparer)?;
    appended(&mut comparer)?;
    Ok(verified)
}

/// Programs find such data by its file offset, so it must not move.
fn appended<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let (old, new) = (comparer.old_image, comparer.new_image);
    if old.appended == 0 && new.appended == 0 {
        return Ok(());
    }
    if old.appended != new.appended || old.file_len != new.file_len {
        return Err(Difference::Appended);
    }
    let start = old.file_len.saturating_sub(old.appended);
    comparer.same(
        "data after the ELF image",
        Span::new(start, old.file_len),
        start,
    )
}
