//! Bytes of a file that no header names, and what becomes of them. A program may carry its own data there and find it by its
//! offset (`pkg` behind patchelf), so these bytes must stay at their offset.

use hugetext_leaf::{Leaf, Segment, Span};
use object::elf;

use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::plan::{Plan, PlanError};
use crate::refusal::Refusal;
use crate::source::{ReadAt, not_zero, read_range};

/// Number of bytes read at a time.
const CHUNK: u64 = 1 << 18;

/// The words of four bytes, at multiples of four, with which lld fills the last page of text
/// (`writeTrapInstr()`): those of x86, ARM and s390x, and of POWER and MIPS in either byte order.
const TRAPS: [[u8; 4]; 7] = [
    [0xcc; 4],
    [0xd4; 4],
    [0x07; 4],
    [0x7f, 0xe0, 0x00, 0x08],
    [0x08, 0x00, 0xe0, 0x7f],
    [0x04, 0x17, 0x00, 0x01],
    [0x01, 0x00, 0x17, 0x04],
];

/// The largest base page that linkers pad text to.
const LARGEST_PAGE: Leaf = Leaf::K64;

/// What a range of the file may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// It lies between two segments that are merged, so it will be mapped with them. Only zeros are known to mean
    /// nothing there.
    Between,
    /// It moves, and no header names it. Its reader can only know its offset.
    Moving,
}

/// An error if a gap holds bytes that may have a meaning: one that no header names and that would move, or one between
/// segments that become one.
pub(crate) fn check_gaps(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<(), PlanError> {
    let between = gaps_between(image, plan)?.into_iter();
    let between = between.map(|range| (Gap::Between, range));
    let moving = gaps_that_move(image, plan).into_iter();
    for (gap, range) in between.chain(moving.map(|range| (Gap::Moving, range))) {
        // Traps that a linker filled the last page of text with.
        let traps = match gap {
            Gap::Moving if ends_text(image, range) => &TRAPS[..],
            _ => &[],
        };
        if let Some(range) = payload_in(source, image.file_len, range, traps)? {
            let offset = range.start;
            return Err(match gap {
                Gap::Between => Refusal::BetweenSegments { offset }.into(),
                Gap::Moving => Refusal::Unnamed { range }.into(),
            });
        }
    }
    Ok(())
}

/// The ranges of the file between two segments that are merged, behind the page that was already mapped; an error if a
/// header table lies there.
fn gaps_between(image: &Image, plan: &Plan) -> Result<Vec<Span>, Refusal> {
    let mapped = continued(&plan.segments);
    let one = |a: &Segment, b: &Segment| {
        let mut new = mapped.iter();
        new.any(|span| span.contains(a.vaddr) && span.contains(b.vaddr))
    };
    let mut found = Vec::new();
    for pair in image.segments.windows(2) {
        let [before, after] = pair else { continue };
        if !one(before, after) {
            continue;
        }
        let between = Span::new(before.file().end, after.offset);
        let mut tables = [&image.program_table, &image.section_table].into_iter();
        if tables.any(|table| Span::new(table.offset, table.end()).overlaps(&between)) {
            return Err(Refusal::BetweenSegments {
                offset: between.start,
            });
        }
        // What follows data in its last page was cleared, if zeros follow it in memory.
        let end = before.file_backed().end;
        let mapped = if before.memsz > before.filesz {
            end
        } else {
            Leaf::K4.align_up(end)
        };
        let start = mapped - before.vaddr + before.offset;
        if start < after.offset {
            found.push(Span::new(start, after.offset));
        }
    }
    Ok(found)
}

/// The addresses of segments, those as one that continue each other in memory and in the file: the
/// parts of a segment that was merged and then cut.
fn continued(segments: &[Segment]) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    let mut file_end = 0;
    for segment in segments {
        let memory = segment.memory();
        match found.last_mut() {
            Some(last) if last.end == memory.start && file_end == segment.offset => {
                last.end = memory.end;
            }
            _ => found.push(memory),
        }
        file_end = segment.file().end;
    }
    found
}

/// The ranges of the file that no header names and that would move.
fn gaps_that_move(image: &Image, plan: &Plan) -> Vec<Span> {
    let moving = || plan.moves.iter().filter(|piece| piece.shift() > 0);
    if moving().next().is_none() {
        return Vec::new();
    }
    let gaps = unnamed(image).into_iter();
    let ranges = gaps.flat_map(|gap| moving().map(move |piece| gap.intersect(&piece.from)));
    ranges.filter(|range| !range.is_empty()).collect()
}

/// Whether a range follows text in its last page.
fn ends_text(image: &Image, range: Span) -> bool {
    image.segments.iter().any(|segment| {
        let end = segment.file().end;
        segment.is_text() && end <= range.start && range.end <= LARGEST_PAGE.align_up(end)
    })
}

/// The ranges of the file that neither a table nor an entry of one names, ascending. Data after the
/// image is separate: [`Image::appended`].
fn unnamed(image: &Image) -> Vec<Span> {
    let end = image.file_len.saturating_sub(image.appended);
    let tables = [&image.program_table, &image.section_table]
        .map(|table| Span::new(table.offset, table.end()));
    let headers = image.headers.iter().filter(|header| names_bytes(header));
    let headers = headers.map(|header| span(header.offset, header.filesz));
    let mut named: Vec<Span> = [image.file_header()]
        .into_iter()
        .chain(tables)
        .chain(headers)
        .collect();
    for (_, section) in image.sections.iter() {
        named.push(span(section.offset, section.file_size()));
    }
    named.retain(|span| !span.is_empty());
    named.sort_unstable();
    between(&named, end)
}

/// The bytes of `range` from the first to the last that have a meaning. Zeros have none, nor has a range that is filled
/// with one of `traps`.
fn payload_in(
    source: &(impl ReadAt + ?Sized),
    file_len: u64,
    range: Span,
    traps: &[[u8; 4]],
) -> Result<Option<Span>, ImageError> {
    const WHAT: &str = "bytes that no header names";
    // The traps that every byte so far agrees with.
    let mut traps = traps.to_vec();
    let mut payload: Option<Span> = None;
    let mut at = range.start;
    while at < range.end {
        let len = CHUNK.min(range.end - at);
        let bytes = read_range(source, at, len, file_len, WHAT)?;
        traps.retain(|trap| {
            let inside = trap.iter().cycle().skip((at % 4) as usize);
            bytes.iter().zip(inside).all(|(byte, part)| byte == part)
        });
        if let Some(here) = not_zero(&bytes) {
            let start = payload.map_or(at + here.start, |found: Span| found.start);
            payload = Some(Span::new(start, at + here.end));
        }
        at += len;
    }
    Ok(payload.filter(|_| traps.is_empty()))
}

/// Whether a header gives the purpose of its bytes. PT_NULL gives none. For types that are unknown
/// here, the readers of their bytes are unknown.
fn names_bytes(header: &ProgramHeader) -> bool {
    const KNOWN: [elf::ProgramType; 11] = [
        elf::PT_LOAD,
        elf::PT_DYNAMIC,
        elf::PT_INTERP,
        elf::PT_NOTE,
        elf::PT_PHDR,
        elf::PT_TLS,
        elf::PT_GNU_EH_FRAME,
        elf::PT_GNU_STACK,
        elf::PT_GNU_RELRO,
        elf::PT_GNU_PROPERTY,
        elf::PT_GNU_SFRAME,
    ];
    KNOWN.iter().any(|known| known.0 == header.p_type)
}

fn span(offset: u64, len: u64) -> Span {
    Span::new(offset, offset.saturating_add(len))
}

/// The range before `end` that is in none of `named`, which ascend.
fn between(named: &[Span], end: u64) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut at = 0;
    for span in named {
        let start = span.start.min(end);
        if start > at {
            gaps.push(Span::new(at, start));
        }
        at = at.max(span.end.min(end));
    }
    if at < end {
        gaps.push(Span::new(at, end));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_is_found() {
        let named = [
            Span::new(0, 10),
            Span::new(5, 8),
            Span::new(12, 20),
            Span::new(20, 30),
            Span::new(50, 99),
        ];
        let gaps = [Span::new(10, 12), Span::new(30, 40)];
        assert_eq!(between(&named, 40), gaps);
        assert_eq!(between(&[], 3), [Span::new(0, 3)]);
        assert_eq!(between(&named, 7), []);
    }
}
