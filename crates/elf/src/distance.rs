//! Keeps windows that loaders ask for away in the file from what nobody asks for.
//!
//! A fault on a mapping without a request reads half of the device's readahead on either side, and readahead goes on
//! behind it, twice as far at most. Both read small folios. Where the readahead is longer than a window, they reach into
//! windows of text that is cut, unless a hole of the file lies between: no loader maps it, and it takes no disk.

use hugetext_leaf::{Leaf, Segment, Span};
use object::elf;

use crate::image::Image;
use crate::layout::Move;
use crate::options::Strategy;
use crate::plan::Plan;

/// Readaheads that must lie between the beginning of the text and its windows in the file: faults there ask for one, and
/// a program that runs through them for a second.
const BEFORE: u64 = 2;

/// Readaheads behind the windows: a fault on data reads backwards, half of one at most.
const BEHIND: u64 = 1;

/// A hole to insert.
#[derive(Debug, Clone, Copy)]
struct Hole {
    /// The offset in the new file before any hole was inserted.
    at: u64,
    /// Its length.
    bytes: u64,
}

/// Whether the windows of all text that loaders ask for, in leaves of `leaf`, are so far from other segments in the file
/// that a readahead of this many bytes does not reach them. Text without such windows is at no risk.
pub fn is_clear_of(segments: &[Segment], leaf: Leaf, readahead: u64) -> bool {
    let asked = segments.iter().filter(|segment| is_asked(segment, leaf));
    let near = |asked: &Segment| {
        let from = asked
            .offset
            .saturating_sub(readahead.saturating_mul(BEFORE));
        let to = asked
            .file()
            .end
            .saturating_add(readahead.saturating_mul(BEHIND));
        let reach = Span::new(from, to);
        let mut others = segments.iter().filter(|other| *other != asked);
        others.any(|other| other.filesz > 0 && other.file().overlaps(&reach))
    };
    !asked.clone().any(near)
}

/// The plan with holes before and behind the text that it cuts; `None` if none are needed, or if the text is so short
/// that half of the readahead, which one fault reads, holds all of it.
pub(crate) fn apart(image: &Image, plan: &Plan, readahead: u64) -> Option<Plan> {
    if plan.strategy == Strategy::Merge || image.appended > 0 {
        return None;
    }
    let holes = holes(&plan.segments, plan.leaf, readahead)?;
    let moved = |offset: u64| moved(&holes, offset);
    let inserted: u64 = holes.iter().map(|hole| hole.bytes).sum();
    let file_len = plan.file_len.checked_add(inserted)?;
    if file_len > image.largest() {
        return None;
    }
    let mut apart = plan.clone();
    for segment in &mut apart.segments {
        segment.offset = moved(segment.offset);
    }
    for header in &mut apart.headers {
        if header.p_type != elf::PT_NULL.0 {
            header.offset = moved(header.offset);
        }
    }
    for (shift, old) in apart.shifts.iter_mut().zip(&image.segments) {
        *shift = moved(old.offset.saturating_add(*shift)).saturating_sub(old.offset);
    }
    apart.moves = plan
        .moves
        .iter()
        .flat_map(|piece| pieces(piece, &holes))
        .collect();
    apart.strategy = plan.strategy.max(Strategy::Shift);
    apart.program_table = moved(plan.program_table);
    apart.section_table = match plan.section_table {
        0 => 0,
        offset => moved(offset),
    };
    apart.file_len = file_len;
    apart.cost.apparent = plan.cost.apparent.saturating_add(inserted);
    // Where a hole divides a block.
    let divided = plan
        .cost
        .disk
        .saturating_add(Leaf::K4.bytes().saturating_mul(holes.len() as u64));
    apart.cost.disk = divided;
    Some(apart)
}

/// Whether loaders ask for huge folios in this segment.
fn is_asked(segment: &Segment, leaf: Leaf) -> bool {
    segment.is_text()
        && !segment.perms.write
        && segment.filesz >= leaf.bytes()
        && leaf.is_aligned(segment.vaddr)
        && leaf.is_aligned(segment.offset)
}

/// The holes before and behind each text that was cut, in ascending order.
fn holes(segments: &[Segment], leaf: Leaf, readahead: u64) -> Option<Vec<Hole>> {
    if readahead == 0 || is_clear_of(segments, leaf, readahead) {
        return None;
    }
    // So that everything stays congruent to what it asks for.
    let largest = segments
        .iter()
        .map(|segment| segment.align.max(leaf.bytes()));
    let align = Leaf::from_bytes(largest.max()?)?;
    let long = |readaheads: u64| align.align_up(readahead.saturating_mul(readaheads));
    let mut holes = Vec::new();
    for pair in segments.windows(2) {
        let [head, asked] = pair else { continue };
        let is_cut = head.memory().end == asked.vaddr && head.file().end == asked.offset;
        if !is_cut || !is_asked(asked, leaf) || asked.filesz < readahead / 2 {
            continue;
        }
        let (at, bytes) = (asked.offset, long(BEFORE));
        holes.push(Hole { at, bytes });
        let behind = segments.iter().filter(|other| other.filesz > 0);
        let behind = behind.map(|other| other.offset);
        let next = behind.filter(|offset| *offset >= asked.file().end).min();
        holes.extend(next.map(|at| Hole {
            at,
            bytes: long(BEHIND),
        }));
    }
    holes.sort_unstable_by_key(|hole| hole.at);
    (!holes.is_empty()).then_some(holes)
}

/// Where the byte at this offset goes.
fn moved(holes: &[Hole], offset: u64) -> u64 {
    let before = holes.iter().filter(|hole| hole.at <= offset);
    before.fold(offset, |at, hole| at.saturating_add(hole.bytes))
}

/// A piece, divided where holes are inserted into it.
fn pieces(piece: &Move, holes: &[Hole]) -> Vec<Move> {
    let end = piece.to.saturating_add(piece.from.len());
    let inside = holes.iter().map(|hole| hole.at);
    let inside = inside.filter(|at| piece.to < *at && *at < end);
    let edges: Vec<u64> = std::iter::once(piece.to)
        .chain(inside)
        .chain([end])
        .collect();
    let old = |new: u64| piece.from.start + (new - piece.to);
    let parts = edges.windows(2).filter_map(|pair| match pair {
        [start, end] => Some(Move {
            from: Span::new(old(*start), old(*end)),
            to: moved(holes, *start),
        }),
        _ => None,
    });
    parts.collect()
}
