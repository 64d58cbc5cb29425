//! Turns decisions into new headers, and computes what they cost.

use hugetext_leaf::{Leaf, ObjectKind, Segment, Span, vmas};
use object::elf;

use crate::group::Mapping;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::{Moves, Placement, shift_with};
use crate::options::{Options, Strategy};
use crate::plan::{Cost, Plan, Warning};
use crate::refusal::Refusal;
use crate::repeats::has_repeats;

/// Makes the new headers from the decisions.
pub(crate) fn assemble(
    image: &Image,
    strategy: Strategy,
    options: &Options,
    mappings: &[Mapping<'_>],
    placement: Placement,
) -> Result<Plan, Refusal> {
    let Placement { moves, shifts } = placement;
    let segments = new_segments(image, mappings, &shifts, options)?;
    let leaf = options.leaf.bytes();
    if !segments.iter().any(|s| s.is_text() && s.align >= leaf) {
        return Err(incongruent(mappings, options.leaf));
    }
    check_kept_whole(image, &moves)?;
    check_flags(image, mappings)?;
    let segments = without_idle_alignment(image, segments);
    let file_len = image.file_len.saturating_add(moves.last_shift());
    let too_large = Refusal::TooLarge {
        most: image.largest(),
    };
    let grows = file_len > image.file_len;
    if (grows && file_len > image.largest()) || segments.iter().any(|s| ends(s) > image.largest()) {
        return Err(too_large);
    }
    let cost = cost(image, options, mappings, &segments, &moves);
    let mut warnings = warnings(mappings);
    let headers = if !has_repeats(&image.headers) {
        new_headers(image, mappings, &segments, &shifts, &moves)
    } else if segments == image.segments && moves.last_shift() == 0 {
        image.headers.clone()
    } else {
        return Err(Refusal::Repeats);
    };
    let moved = |offset: u64| offset.saturating_add(moves.shift_at(offset));
    let program_table = moved(image.program_table.offset);
    let first = shifts.first().copied().unwrap_or(0);
    let apart = program_table != image.program_table.offset.saturating_add(first);
    if image.kind != ObjectKind::SharedObject && apart {
        warnings.push(Warning::ProgramHeadersMove);
    }
    Ok(Plan {
        strategy,
        leaf: options.leaf,
        encoding: image.encoding,
        program_table,
        section_table: match image.section_table.offset {
            0 => 0,
            offset => moved(offset),
        },
        sections_cut: Vec::new(),
        file_len,
        cost,
        warnings,
        segments,
        headers,
        shifts,
        moves: moves.into_vec(),
    })
}

/// PT_LOADs that become one must have no flags but those of access.
fn check_flags(image: &Image, mappings: &[Mapping<'_>]) -> Result<(), Refusal> {
    const KNOWN: u32 = elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0;
    let loads = image.headers.iter().filter(|h| h.p_type == elf::PT_LOAD.0);
    let loads: Vec<&ProgramHeader> = loads.collect();
    let merged = mappings.iter().filter(|mapping| mapping.is_merged());
    let mut members = merged.flat_map(|mapping| {
        let end = mapping.first.saturating_add(mapping.members.len());
        loads.get(mapping.first..end).unwrap_or_default()
    });
    match members.find(|load| load.flags & !KNOWN != 0) {
        Some(load) => Err(Refusal::UnknownFlags { vaddr: load.vaddr }),
        None => Ok(()),
    }
}

/// Each header table, and the range of each program header other than PT_LOAD, must move by one
/// distance.
fn check_kept_whole(image: &Image, moves: &Moves) -> Result<(), Refusal> {
    let [programs, sections] = [&image.program_table, &image.section_table]
        .map(|table| Span::new(table.offset, table.end()));
    let describes = image.headers.iter().filter(|h| h.p_type != elf::PT_LOAD.0);
    let described = describes.map(|header| {
        let end = header.offset.saturating_add(header.filesz);
        ("a program header", Span::new(header.offset, end))
    });
    let mut named = [
        ("the program header table", programs),
        ("the section header table", sections),
    ]
    .into_iter()
    .chain(described);
    let torn = named.find(|(_, span)| !moves.keeps_whole(*span));
    torn.map_or(Ok(()), |(what, _)| Err(Refusal::Torn { what }))
}

/// Raising p_align of a program with fixed addresses does not justify a new file, since nothing
/// places it by its p_align. If the file changes otherwise, p_align is raised too: tools that lay
/// the file out again (strip) then keep the layout.
fn without_idle_alignment(image: &Image, new: Vec<Segment>) -> Vec<Segment> {
    let old = &image.segments;
    let realigned = |(old, new): (&Segment, &Segment)| {
        let mut as_before = *new;
        as_before.align = old.align;
        as_before == *old
    };
    let only_realigned = new.len() == old.len() && old.iter().zip(&new).all(realigned);
    match image.kind {
        ObjectKind::Executable if only_realigned => old.clone(),
        _ => new,
    }
}

fn incongruent(mappings: &[Mapping<'_>], leaf: Leaf) -> Refusal {
    let worth = mappings
        .iter()
        .filter(|mapping| mapping.is_worth_it)
        .filter_map(|mapping| mapping.members.first())
        .max_by_key(|segment| segment.filesz);
    let Some(worth) = worth else {
        return Refusal::Small { leaf };
    };
    if worth.offset == 0 {
        return Refusal::Pinned {
            vaddr: worth.vaddr,
            leaf,
        };
    }
    Refusal::Incongruent {
        by: leaf.offset_in(worth.vaddr.wrapping_sub(worth.offset)),
        leaf,
    }
}

/// One past the last address or offset of a segment, whichever is larger.
fn ends(segment: &Segment) -> u64 {
    segment.memory().end.max(segment.file().end)
}

fn new_segments(
    image: &Image,
    mappings: &[Mapping<'_>],
    shifts: &[u64],
    options: &Options,
) -> Result<Vec<Segment>, Refusal> {
    let new = mappings.iter().map(|mapping| {
        let members = mapping.members;
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return Err(Refusal::NoText);
        };
        let shift = shifts.get(mapping.first).copied().unwrap_or(0);
        let extension = mapping.extension;
        let offset = first.offset.saturating_add(shift);
        let congruent = options.leaf.is_aligned(first.vaddr.wrapping_sub(offset));
        let align = if congruent && mapping.is_worth_it {
            first.align.max(options.leaf.bytes())
        } else {
            first.align
        };
        let mut perms = first.perms;
        for member in members {
            perms.read |= member.perms.read;
            perms.exec |= member.perms.exec;
        }
        let filesz = last.file_backed().end - first.vaddr + extension;
        let memsz = last.memory().end - first.vaddr + extension;
        Segment::new(first.vaddr, offset, filesz, memsz, align, perms).map_err(|_| {
            Refusal::TooLarge {
                most: image.largest(),
            }
        })
    });
    new.collect()
}

/// The old program headers with each PT_LOAD replaced: by the PT_LOAD of its mapping if it is the
/// mapping's first, and by PT_NULL if it is not. The other headers follow the bytes that they name.
/// The number of headers stays, because eu-unstrip joins a file with its debug information only
/// then.
fn new_headers(
    image: &Image,
    mappings: &[Mapping<'_>],
    segments: &[Segment],
    shifts: &[u64],
    moves: &Moves,
) -> Vec<ProgramHeader> {
    let mut load = 0;
    let mut headers = Vec::with_capacity(image.headers.len());
    for header in &image.headers {
        if header.p_type != elf::PT_LOAD.0 {
            let shift = shift_of(header, &image.segments, shifts, moves);
            let offset = header.offset.saturating_add(shift);
            headers.push(ProgramHeader { offset, ..*header });
            continue;
        }
        let mapping = mappings.iter().position(|mapping| mapping.first == load);
        headers.push(match mapping.and_then(|index| segments.get(index)) {
            Some(segment) => ProgramHeader {
                flags: header.flags | if segment.perms.exec { elf::PF_X.0 } else { 0 },
                offset: segment.offset,
                filesz: segment.filesz,
                memsz: segment.memsz,
                align: segment.align,
                ..*header
            },
            None => UNUSED,
        });
        load += 1;
    }
    headers
}

/// An entry that all readers skip (gABI, PT_NULL).
const UNUSED: ProgramHeader = ProgramHeader {
    p_type: elf::PT_NULL.0,
    flags: 0,
    offset: 0,
    vaddr: 0,
    paddr: 0,
    filesz: 0,
    memsz: 0,
    align: 0,
};

/// How far a header other than PT_LOAD moves: with its bytes, or, without bytes, with the segment
/// of its address. A header without a range (PT_GNU_STACK) stays.
fn shift_of(header: &ProgramHeader, old: &[Segment], shifts: &[u64], moves: &Moves) -> u64 {
    if header.filesz > 0 {
        return moves.shift_at(header.offset);
    }
    if header.offset == 0 {
        return 0;
    }
    let known = (shifts, moves.as_slice());
    shift_with(old, known, header.vaddr, header.offset)
}

fn cost(
    image: &Image,
    options: &Options,
    mappings: &[Mapping<'_>],
    segments: &[Segment],
    moves: &Moves,
) -> Cost {
    let page = options.page;
    let pieces = moves.as_slice().iter();
    let divided = pieces
        .filter(|piece| !page.is_aligned(piece.from.start))
        .count() as u64;
    // The new mappings hold zeros beyond the old pages.
    let mapped = |segments: &[Segment]| -> u64 {
        let text = vmas(segments, page).into_iter();
        text.filter(|vma| vma.perms.exec)
            .map(|vma| vma.addresses.len())
            .sum()
    };
    let grouped: u64 = mappings
        .iter()
        .filter(|mapping| mapping.members.iter().any(Segment::is_text))
        .flat_map(|mapping| mapping.members)
        .map(|segment| segment.filesz)
        .sum();
    let is_executable = image.kind == ObjectKind::Executable;
    let align = |segments: &[Segment]| {
        let largest = segments.iter().map(|s| s.align.max(1)).max().unwrap_or(1);
        Leaf::from_bytes(largest).map_or(0, |leaf| leaf.max(page).shift())
    };
    Cost {
        apparent: moves.last_shift(),
        disk: divided.saturating_mul(page.bytes()),
        memory: mapped(segments).saturating_sub(grouped),
        aslr_bits: if is_executable {
            0
        } else {
            align(segments).saturating_sub(align(&image.segments))
        },
    }
}

fn warnings(mappings: &[Mapping<'_>]) -> Vec<Warning> {
    let merged = || mappings.iter().filter(|mapping| mapping.is_merged());
    let with_text = merged().filter(|mapping| mapping.members.iter().any(Segment::is_text));
    let read_only = with_text.flat_map(|mapping| {
        let members = mapping.members.iter();
        members.filter(|member| !member.perms.exec)
    });
    let mut warnings: Vec<Warning> = read_only
        .map(|member| Warning::BecomesExecutable {
            addresses: member.memory(),
        })
        .collect();
    let data = merged().filter(|mapping| {
        let mut members = mapping.members.iter();
        members.all(|member| member.perms.write)
    });
    warnings.extend(data.map(|mapping| Warning::DataJoined {
        addresses: mapping.addresses,
    }));
    warnings
}
