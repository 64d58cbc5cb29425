//! Proof that two files are the same program.
//!
//! Shares the reader with the rewriter and nothing else: it knows no plan and no moves. It asks
//! what a loader, a debugger and a linker see of either file, and compares that.

mod bytes;
mod headers;
mod memory;
mod sections;
mod unnamed;

use std::io;

use hugetext_leaf::{Leaf, Perms, Span};
use serde::Serialize;

use crate::error::ImageError;
use crate::image::Image;
use crate::source::ReadAt;
use bytes::Comparer;

/// The smallest base page of any architecture read here.
const SMALLEST_PAGE: Leaf = Leaf::K4;

/// What is the same program, and yet not quite the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Verified {
    /// Addresses whose access rights differ. Only the addition of execution to read-only
    /// addresses is ever listed; any other change is a [`Difference`].
    pub permissions: Vec<PermissionChange>,
    /// Addresses mapped in the new file only. They hold zeros, or what the last page of the segment
    /// before them showed there already.
    pub added: Vec<Span>,
}

impl Verified {
    /// Whether every address has the same bytes and access rights and none was added.
    pub fn is_exact(&self) -> bool {
        self.permissions.is_empty() && self.added.is_empty()
    }
}

/// A change of access rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PermissionChange {
    /// Where, as addresses of the image.
    pub addresses: Span,
    /// The rights in the old file.
    pub from: Perms,
    /// The rights in the new file.
    pub to: Perms,
}

/// Why two files are not the same program, or cannot be shown to be.
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
    /// A field of the ELF header other than the places of the tables.
    #[error("the ELF headers differ in {0}")]
    FileHeader(&'static str),
    /// A program header other than PT_LOAD.
    #[error(
        "program header {index} (of those that are neither PT_LOAD nor PT_NULL) differs in {what}"
    )]
    ProgramHeader {
        /// Its index among those that are neither PT_LOAD nor PT_NULL.
        index: usize,
        /// In what.
        what: &'static str,
    },
    /// A PT_LOAD that loaders would treat otherwise.
    #[error("the PT_LOAD at {vaddr:#x} {what}")]
    Load {
        /// p_vaddr in the new file.
        vaddr: u64,
        /// In what.
        what: &'static str,
    },
    /// An address of the old file that the new one does not map.
    #[error("address {0:#x} is no longer mapped")]
    Unmapped(u64),
    /// Other access rights, and not just execution added to read-only data.
    #[error("address {address:#x} changes from {from} to {to}")]
    Permissions {
        /// The first such address.
        address: u64,
        /// The rights in the old file.
        from: Perms,
        /// The rights in the new file.
        to: Perms,
    },
    /// Other bytes.
    #[error("{what} differs at offset {offset:#x} of the old file")]
    Bytes {
        /// What they belong to.
        what: &'static str,
        /// Offset in the old file.
        offset: u64,
    },
    /// Bytes that must be zero in memory are not.
    #[error("address {0:#x} should be zero")]
    NotZero(u64),
    /// The ELF header or the program header table is seen at another address.
    #[error("{0} is loaded at another address")]
    TableMoved(&'static str),
    /// A section, or the number of sections.
    #[error("section {index} differs in {what}")]
    Section {
        /// Its index.
        index: u64,
        /// In what.
        what: &'static str,
    },
    /// Bytes that no header names are not where they were, or not the same.
    #[error(
        "bytes {:#x}..{:#x} of the {file} file, which no header names, are not in the other file at the same offset",
        .range.start, .range.end
    )]
    Unnamed {
        /// Which of the two files has them: `old` or `new`.
        file: &'static str,
        /// Their offsets.
        range: Span,
    },
    /// Data after the image is not where it was.
    #[error("data after the ELF image has moved")]
    Appended,
}

/// Compares what the two files load and what they say about themselves: bytes and access rights at
/// every address, all headers, every section by place, name and content; what no header names by its
/// offset. Holds for any load bias that is a multiple of every p_align.
///
/// Not promised are zeros and traps outside every PT_LOAD that share a page with one: loaders map
/// them, but they belong to no segment, and programs do not refer to them.
pub fn verify(
    old: &(impl ReadAt + ?Sized),
    new: &(impl ReadAt + ?Sized),
) -> Result<Verified, Difference> {
    verify_unshared(old, new, |_, _| Stretch::Unknown(u64::MAX))
}

/// What is known of the bytes of two files from an offset of either on, before they are read. The
/// lengths are bytes, and not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// So many are the same.
    Shared(u64),
    /// Nothing is known of so many.
    Unknown(u64),
}

/// As [`verify`], and reads no bytes that are known to be the same: `known` is asked with an offset
/// of the old file and one of the new. A filesystem that shares blocks between files can tell.
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

/// Programs find such data by its file offset, so it must not move at all.
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
