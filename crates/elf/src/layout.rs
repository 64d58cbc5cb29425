//! The new offsets of the bytes of a file: how far each PT_LOAD moves.

use hugetext_leaf::{Leaf, Segment, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::group::{ELF_HEADER, Mapping};
use crate::options::MovedText;
use crate::refusal::Refusal;

/// A range of the old file and its start in the new one. The distance is a multiple of the
/// alignment of the segments inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Move {
    /// File offsets in the old file, bytes.
    pub from: Span,
    /// File offset of the first byte in the new file.
    pub to: u64,
}

impl Move {
    /// How far the range moves towards the end of the file, in bytes.
    pub const fn shift(&self) -> u64 {
        self.to - self.from.start
    }
}

/// How far the byte at `offset` of the old file moves. Beyond its end, the last byte's distance
/// holds.
pub(crate) fn shift_at(moves: &[Move], offset: u64) -> u64 {
    let next = moves.partition_point(|piece| piece.from.start <= offset);
    let found = moves.get(next.saturating_sub(1));
    found.map_or(0, Move::shift)
}

/// How far a header or section without bytes at this address and file offset moves: with the PT_LOAD of its address, or
/// else as the byte at its offset. An empty range often lies on the boundary of two PT_LOADs, so the distance between
/// address and offset decides before the address alone.
pub(crate) fn shift_with(
    segments: &[Segment],
    (shifts, moves): (&[u64], &[Move]),
    vaddr: u64,
    offset: u64,
) -> u64 {
    let delta = vaddr.wrapping_sub(offset);
    let same = |segment: &Segment| {
        let memory = segment.memory();
        segment.vaddr.wrapping_sub(segment.offset) == delta
            && memory.start <= vaddr
            && vaddr <= memory.end
    };
    let holder = segments.iter().position(same);
    let holder = holder.or_else(|| {
        let mut segments = segments.iter();
        segments.position(|segment| segment.memory().contains(vaddr))
    });
    let shift = holder.and_then(|index| shifts.get(index));
    shift.copied().unwrap_or_else(|| shift_at(moves, offset))
}

/// The whole old file as moves: ascending, without a gap in the old file and without an overlap
/// in the new one. The first move begins at 0 and stays there, because the ELF header must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moves(Vec<Move>);

impl Moves {
    fn none(file_len: u64) -> Moves {
        Moves(vec![Move {
            from: Span::new(0, file_len),
            to: 0,
        }])
    }

    /// Moves everything from `offset` on by `shift` bytes in total. Both are at least as large as
    /// those of the last cut.
    fn cut(&mut self, offset: u64, shift: u64) {
        let Some(last) = self.0.last_mut() else {
            return;
        };
        if last.shift() == shift {
            return;
        }
        let from = Span::new(offset, last.from.end);
        let to = offset.saturating_add(shift);
        if last.from.start == offset {
            *last = Move { from, to };
        } else {
            last.from.end = offset;
            self.0.push(Move { from, to });
        }
    }

    pub(crate) fn shift_at(&self, offset: u64) -> u64 {
        shift_at(&self.0, offset)
    }

    /// Whether the whole range moves by one distance.
    pub(crate) fn keeps_whole(&self, range: Span) -> bool {
        range.is_empty() || self.shift_at(range.start) == self.shift_at(range.end - 1)
    }

    pub(crate) fn last_shift(&self) -> u64 {
        self.0.last().map_or(0, |piece| piece.shift())
    }

    pub(crate) fn as_slice(&self) -> &[Move] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<Move> {
        self.0
    }
}

/// The result of placing the mappings.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) moves: Moves,
    /// The distance that each PT_LOAD moves, by its index.
    pub(crate) shifts: Vec<u64>,
}

impl Placement {
    /// Everything stays.
    pub(crate) fn unmoved(file_len: u64, segments: &[Segment]) -> Placement {
        Placement {
            moves: Moves::none(file_len),
            shifts: vec![0; segments.len()],
        }
    }
}

/// The file whose mappings are placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldFile {
    /// Its length, bytes.
    pub(crate) len: u64,
    pub(crate) moved: MovedText,
    /// Bytes after everything that its headers name.
    pub(crate) appended: u64,
}

impl OldFile {
    /// The least distance that a mapping at `offset` moves if it has to move and nothing before it does.
    fn least(&self, segments: &[Segment], offset: u64) -> u64 {
        // Symbols of zeroed memory have offsets, too: those that its bytes would have.
        let end = |segment: &Segment| segment.offset.saturating_add(segment.memsz);
        match self.moved {
            MovedText::Nearest => 0,
            MovedText::BehindOld => segments
                .iter()
                .map(end)
                .max()
                .unwrap_or(0)
                .saturating_sub(offset),
        }
    }
}

/// Places every mapping at the lowest offset at which it meets its demand, in file order; everything
/// after it moves along. The first one that moves goes as far as `file` asks for.
///
/// What shares bytes of the file with another PT_LOAD, or is found by its distance from the end, cannot move.
pub(crate) fn place(
    segments: &[Segment],
    mappings: &[Mapping<'_>],
    file: OldFile,
    page: Leaf,
) -> Result<Placement, Refusal> {
    let Placement {
        mut moves,
        mut shifts,
    } = Placement::unmoved(file.len, segments);
    let mut order: Vec<&Mapping<'_>> = mappings.iter().collect();
    let offset_of = |mapping: &Mapping<'_>| mapping.members.first().map_or(0, |s| s.offset);
    // Segments without file bytes (bss alone) go last among equals: they cut nothing.
    order.sort_by_key(|mapping| (offset_of(mapping), mapping.addresses.is_empty()));
    for mapping in order {
        let members = mapping.members;
        let Some(first) = members.first() else {
            continue;
        };
        let missing_after = |least: u64| {
            let delta = first.vaddr.wrapping_sub(first.offset);
            mapping.demand.offset_in(delta.wrapping_sub(least))
        };
        let least = match moves.last_shift() {
            0 if missing_after(0) > 0 => file.least(segments, first.offset),
            last => last,
        };
        let missing = missing_after(least);
        // The ELF header must stay at offset 0, and its segment with it.
        let pinned = first.offset < ELF_HEADER && first.filesz > 0;
        let shift = if pinned {
            0
        } else {
            least.saturating_add(missing)
        };
        let delta = first.vaddr.wrapping_sub(first.offset).wrapping_sub(shift);
        for (index, member) in (mapping.first..).zip(members) {
            // `joins` guarantees that distances within a group ascend.
            let shift = member.vaddr.wrapping_sub(delta).wrapping_sub(member.offset);
            if let Some(slot) = shifts.get_mut(index) {
                *slot = shift;
            }
            if member.filesz > 0 {
                moves.cut(member.offset, shift);
            }
        }
        let extension = page.align_up(mapping.extension);
        if extension > 0 {
            let end = members.last().map_or(0, |last| last.file().end);
            moves.cut(end, moves.last_shift().saturating_add(extension));
        }
    }
    if moves.last_shift() > 0 {
        if file.appended > 0 {
            let bytes = file.appended;
            return Err(Refusal::AppendedData { bytes });
        }
        check_file_order(segments)?;
    }
    Ok(Placement { moves, shifts })
}

fn check_file_order(segments: &[Segment]) -> Result<(), Refusal> {
    let mut spans: Vec<(Span, u64)> = segments
        .iter()
        .filter(|segment| segment.filesz > 0)
        .map(|segment| (segment.file(), segment.vaddr))
        .collect();
    spans.sort();
    let clash = spans.windows(2).find_map(|pair| match pair {
        [(a, first), (b, second)] if a.overlaps(b) => Some(Refusal::FileOverlap {
            first: *first,
            second: *second,
        }),
        _ => None,
    });
    clash.map_or(Ok(()), Err)
}
