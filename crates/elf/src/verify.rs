//! Verifies that two files are the same program.
//!
//! This module shares the reader with the rewriter and nothing else: it knows no plan, no moves and no rule of
//! those who plan, and the test `crates/hugetext/tests/house.rs` holds that. It compares the two files from the view of a loader, a debugger and a linker.

mod bytes;
mod difference;
mod headers;
mod memory;
mod purpose;
mod sections;
mod unnamed;

use hugetext_leaf::Span;

use crate::image::Image;
use crate::source::ReadAt;
use bytes::Comparer;
pub use bytes::Stretch;
pub use difference::{Difference, PermissionChange, Verified};

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
