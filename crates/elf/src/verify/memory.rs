//! Compares the memory images of two files, address by address.

use hugetext_leaf::{Leaf, Perms, Segment, Span};

use super::bytes::Comparer;
use super::difference::{Difference, PermissionChange, Verified};
use crate::source::ReadAt;

/// The smallest base page of all architectures that are read here.
pub(super) const SMALLEST_PAGE: Leaf = Leaf::K4;

/// Every address of the old image has the same bytes and rights in the new one. Addresses that only
/// the new one has hold zeros, or the bytes of the rest of the page before them.
pub(super) fn compare<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<Verified, Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let (old_image, new_image) = (comparer.old_image, comparer.new_image);
    let mut verified = Verified::default();
    for old in &old_image.segments {
        let mut at = old.vaddr;
        while at < old.memory().end {
            let new = new_image
                .segments
                .iter()
                .find(|new| new.memory().contains(at))
                .ok_or(Difference::Unmapped(at))?;
            let shared = old.memory().intersect(&new.memory());
            let addresses = Span::new(at, shared.end);
            if let Some(change) = permission_change(old.perms, new.perms, addresses)? {
                verified.permissions.push(change);
            }
            same_content(comparer, old, new, addresses)?;
            at = addresses.end;
        }
    }
    for new in &new_image.segments {
        for added in uncovered(new.memory(), &old_image.segments) {
            only_new(comparer, new, added)?;
            verified.added.push(added);
        }
    }
    Ok(verified)
}

/// `addresses` lie in the memory of `new` and of no old segment.
fn only_new<O, N>(
    comparer: &mut Comparer<'_, O, N>,
    new: &Segment,
    addresses: Span,
) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    if addresses.is_empty() {
        return Ok(());
    }
    let tail = page_tail(addresses, &comparer.old_image.segments);
    if let Some((file, _)) = tail {
        let at = new.offset + (addresses.start - new.vaddr);
        comparer.same_or_zero(file, at, addresses.start)?;
    }
    let checked = tail.map_or(addresses.start, |(_, end)| end);
    zeros(comparer, new, Span::new(checked, addresses.end))
}

/// Only read-only data that becomes executable is listed as a change. Other changes are errors.
fn permission_change(
    from: Perms,
    to: Perms,
    addresses: Span,
) -> Result<Option<PermissionChange>, Difference> {
    if from == to {
        return Ok(None);
    }
    let with_exec = Perms { exec: true, ..from };
    if to == with_exec && !from.write {
        return Ok(Some(PermissionChange {
            addresses,
            from,
            to,
        }));
    }
    Err(Difference::Permissions {
        address: addresses.start,
        from,
        to,
    })
}

/// `addresses` lie in the memory of both segments.
fn same_content<O, N>(
    comparer: &mut Comparer<'_, O, N>,
    old: &Segment,
    new: &Segment,
    addresses: Span,
) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let from_file = addresses.intersect(&old.file_backed());
    if !from_file.is_empty() {
        if from_file.end > new.file_backed().end {
            return Err(Difference::Unmapped(new.file_backed().end));
        }
        let start = old.offset + (from_file.start - old.vaddr);
        let file = Span::new(start, start + from_file.len());
        let at = new.offset + (from_file.start - new.vaddr);
        comparer.same("a segment", file, at)?;
    }
    let bss = Span::new(addresses.start.max(old.file_backed().end), addresses.end);
    zeros(comparer, new, bss)
}

/// `addresses` lie in the memory of `new`. Those that come from its file must be zero there.
fn zeros<O, N>(
    comparer: &mut Comparer<'_, O, N>,
    new: &Segment,
    addresses: Span,
) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let from_file = addresses.intersect(&new.file_backed());
    if from_file.is_empty() {
        return Ok(());
    }
    let start = new.offset + (from_file.start - new.vaddr);
    comparer.zero(Span::new(start, start + from_file.len()), from_file.start)
}

/// The part of `addresses` that the last page of an old segment already shows: the range of the old
/// file that is seen there, and the address where it ends. Some linkers fill it with traps.
fn page_tail(addresses: Span, segments: &[Segment]) -> Option<(Span, u64)> {
    let before = segments.iter().find(|segment| {
        segment.memory().end == addresses.start && segment.filesz == segment.memsz
    })?;
    let end = SMALLEST_PAGE.align_up(addresses.start).min(addresses.end);
    let start = before.file().end;
    let file = Span::new(start, start + (end - addresses.start));
    (!file.is_empty()).then_some((file, end))
}

/// The parts of `memory` in none of `segments`, which ascend and do not overlap.
fn uncovered(memory: Span, segments: &[Segment]) -> Vec<Span> {
    let mut rest = Vec::new();
    let mut at = memory.start;
    for segment in segments {
        let covered = segment.memory().intersect(&memory);
        if covered.is_empty() {
            continue;
        }
        rest.push(Span::new(at, covered.start));
        at = covered.end;
    }
    rest.push(Span::new(at, memory.end));
    rest.retain(|span| !span.is_empty());
    rest
}
