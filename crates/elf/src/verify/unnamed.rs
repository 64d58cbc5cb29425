//! Compares bytes that no header names by their offset, since a reader can know nothing else.

use hugetext_leaf::Span;

use super::Difference;
use super::bytes::Comparer;
use crate::source::ReadAt;
use crate::unnamed::{payload_in, unnamed};

/// Bytes that no header names in one file are at the same offset in the other.
pub(super) fn compare<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let (old, old_image) = (comparer.old, comparer.old_image);
    for gap in unnamed(old, old_image).map_err(Difference::Old)? {
        let payload = payload_in(old, old_image, gap).map_err(Difference::Old)?;
        stays(comparer, "old", payload)?;
    }
    let (new, new_image) = (comparer.new, comparer.new_image);
    for gap in unnamed(new, new_image).map_err(Difference::New)? {
        let payload = payload_in(new, new_image, gap).map_err(Difference::New)?;
        stays(comparer, "new", payload)?;
    }
    Ok(())
}

fn stays<O, N>(
    comparer: &mut Comparer<'_, O, N>,
    file: &'static str,
    payload: Option<Span>,
) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    match payload {
        Some(range) if !comparer.alike(range)? => Err(Difference::Unnamed { file, range }),
        _ => Ok(()),
    }
}
