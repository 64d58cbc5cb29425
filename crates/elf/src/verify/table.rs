//! The program header table of a copy may lie elsewhere than that of the original.

use hugetext_leaf::Span;

use crate::image::Image;

/// The addresses of the table of `new` if it was moved to where `old` maps nothing.
pub(super) fn moved_table(old: &Image, new: &Image) -> Option<Span> {
    let table = Span::new(new.program_table.offset, new.program_table.end());
    let first = new.segments.first()?;
    let segment = new.segments.iter().find(|segment| {
        segment.file().intersect(&table) == table
            && !segment.perms.write
            // Where kernels before 5.18 say that it is.
            && segment.vaddr.wrapping_sub(segment.offset) == first.vaddr.wrapping_sub(first.offset)
    })?;
    let start = segment.vaddr + (table.start - segment.offset);
    let addresses = Span::new(start, start + table.len());
    let is_new = !old
        .segments
        .iter()
        .any(|segment| segment.memory().overlaps(&addresses));
    is_new.then_some(addresses)
}
