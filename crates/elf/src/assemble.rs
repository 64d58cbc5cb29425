//! Turns decisions into new headers, and computes what they cost.

use hugetext_leaf::{Leaf, ObjectKind, Segment, Span, vmas};
use object::elf;

use crate::group::Group;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::{Moves, Placement};
use crate::options::{Options, Strategy};
use crate::plan::{Cost, Plan, Warning};
use crate::refusal::Refusal;

/// Makes the new headers from the decisions.
pub(crate) fn assemble(
    image: &Image,
    strategy: Strategy,
    options: &Options,
    groups: &[Group],
    placement: Placement,
) -> Result<Plan, Refusal> {
    let Placement { moves, shifts } = placement;
    let segments = new_segments(image, groups, &shifts, options)?;
    let leaf = options.leaf.bytes();
    if !segments.iter().any(|s| s.is_text() && s.align >= leaf) {
        return Err(incongruent(image, groups, options));
    }
    check_kept_whole(image, &moves)?;
    check_flags(image, groups)?;
    let segments = without_idle_alignment(image, segments);
    let file_len = image.file_len.saturating_add(moves.last_shift());
    let too_large = Refusal::TooLarge {
        most: image.largest(),
    };
    let grows = file_len > image.file_len;
    if (grows && file_len > image.largest()) || segments.iter().any(|s| ends(s) > image.largest()) {
        return Err(too_large);
    }
    let cost = cost(image, options, groups, &segments, &moves);
    let warnings = warnings(image, groups, &shifts, &moves);
    let headers = new_headers(image, groups, &segments, &shifts, &moves);
    let moved = |offset: u64| offset.saturating_add(moves.shift_at(offset));
    Ok(Plan {
        strategy,
        leaf: options.leaf,
        encoding: image.encoding,
        program_table: moved(image.program_table.offset),
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
fn check_flags(image: &Image, groups: &[Group]) -> Result<(), Refusal> {
    const KNOWN: u32 = elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0;
    let loads = image.headers.iter().filter(|h| h.p_type == elf::PT_LOAD.0);
    let loads: Vec<&ProgramHeader> = loads.collect();
    let merged = groups.iter().filter(|group| group.first < group.last);
    let mut members =
        merged.flat_map(|group| loads.get(group.first..=group.last).unwrap_or_default());
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

fn incongruent(image: &Image, groups: &[Group], options: &Options) -> Refusal {
    let leaf = options.leaf;
    let segments = &image.segments;
    let worth = groups
        .iter()
        .filter(|group| group.is_worth_it(segments, options))
        .filter_map(|group| group.members(segments).first())
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
    groups: &[Group],
    shifts: &[u64],
    options: &Options,
) -> Result<Vec<Segment>, Refusal> {
    let new = groups.iter().map(|group| {
        let members = group.members(&image.segments);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return Err(Refusal::NoText);
        };
        let shift = shifts.get(group.first).copied().unwrap_or(0);
        let extension = group.extension(&image.segments, options);
        let offset = first.offset.saturating_add(shift);
        let congruent = options.leaf.is_aligned(first.vaddr.wrapping_sub(offset));
        let align = if congruent && group.is_worth_it(&image.segments, options) {
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

/// The old program headers with each PT_LOAD replaced: by the PT_LOAD of its group if it is the
/// group's first, and by PT_NULL if it is not. The other headers follow the bytes that they name.
/// The number of headers stays, because eu-unstrip joins a file with its debug information only
/// then.
fn new_headers(
    image: &Image,
    groups: &[Group],
    segments: &[Segment],
    shifts: &[u64],
    moves: &Moves,
) -> Vec<ProgramHeader> {
    let mut load = 0;
    let mut headers = Vec::with_capacity(image.headers.len());
    for header in &image.headers {
        if header.p_type != elf::PT_LOAD.0 {
            let shift = shift_of(header, image, shifts, moves);
            let offset = header.offset.saturating_add(shift);
            headers.push(ProgramHeader { offset, ..*header });
            continue;
        }
        let group = groups.iter().position(|group| group.first == load);
        headers.push(match group.and_then(|group| segments.get(group)) {
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
fn shift_of(header: &ProgramHeader, image: &Image, shifts: &[u64], moves: &Moves) -> u64 {
    let by_bytes = moves.shift_at(header.offset);
    if header.filesz > 0 {
        return by_bytes;
    }
    if header.offset == 0 {
        return 0;
    }
    let holder = image.holder_of(header.vaddr, header.offset);
    let shift = holder.and_then(|index| shifts.get(index));
    shift.copied().unwrap_or(by_bytes)
}

fn cost(
    image: &Image,
    options: &Options,
    groups: &[Group],
    segments: &[Segment],
    moves: &Moves,
) -> Cost {
    let page = options.page;
    let pieces = moves.clone().into_vec();
    let divided = pieces
        .iter()
        .filter(|piece| !page.is_aligned(piece.from.start))
        .count() as u64;
    // The new mappings hold zeros beyond the old pages.
    let mapped = |segments: &[Segment]| -> u64 {
        let text = vmas(segments, page).into_iter();
        text.filter(|vma| vma.perms.exec)
            .map(|vma| vma.addresses.len())
            .sum()
    };
    let grouped: u64 = groups
        .iter()
        .filter(|group| group.members(&image.segments).iter().any(Segment::is_text))
        .flat_map(|group| group.members(&image.segments))
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

fn warnings(image: &Image, groups: &[Group], shifts: &[u64], moves: &Moves) -> Vec<Warning> {
    let segments = &image.segments;
    let merged = || groups.iter().filter(|group| group.first < group.last);
    let with_text = merged().filter(|group| group.members(segments).iter().any(Segment::is_text));
    let read_only = with_text.flat_map(|group| {
        let members = group.members(segments).iter();
        members.filter(|member| !member.perms.exec)
    });
    let mut warnings: Vec<Warning> = read_only
        .map(|member| Warning::BecomesExecutable {
            addresses: member.memory(),
        })
        .collect();
    let data = merged().filter(|group| {
        let mut members = group.members(segments).iter();
        members.all(|member| member.perms.write)
    });
    warnings.extend(data.map(|group| Warning::DataJoined {
        addresses: group.addresses(segments),
    }));
    let first = shifts.first().copied().unwrap_or(0);
    if image.kind != ObjectKind::SharedObject && moves.shift_at(image.program_table.offset) != first
    {
        warnings.push(Warning::ProgramHeadersMove);
    }
    warnings
}
