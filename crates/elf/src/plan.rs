//! What to change in a file so that leaves can map its text: decided from its headers alone.

use hugetext_leaf::{Bias, Geometry, LIMIT, Leaf, ObjectKind, Segment, Span, reach, vmas};
use object::elf;
use serde::Serialize;

use crate::image::{Image, ProgramHeader};
use crate::layout::{ELF_HEADER, Group, Move, Moves, Placement, place, shift_at};

/// How far a rewrite may go, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Raise p_align of text that is congruent already: a header edit.
    Align,
    /// Insert holes so that text becomes congruent, and move what follows in the file.
    Shift,
    /// As `Shift`, and join read-only neighbours with text in one mapping (R+X).
    Merge,
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The leaf that is to map the text.
    pub leaf: Leaf,
    /// The smallest base page the file is to run with.
    pub page: Leaf,
    /// Extend text to a whole window where the addresses after it are free.
    pub extend_tail: bool,
}

impl Options {
    /// The largest leaf of `geometry` up to 32 MiB (larger ones the kernel does not align images
    /// to) of which text of `image` holds a window under `strategy`; the smallest leaf if there
    /// is none, so that a plan can say so.
    pub fn for_image(image: &Image, geometry: &Geometry, strategy: Strategy) -> Options {
        let with = |leaf| Options {
            leaf,
            page: geometry.page,
            extend_tail: false,
        };
        let leaves = || {
            geometry
                .leaves()
                .map(|(_, leaf)| leaf)
                .filter(|leaf| *leaf <= Leaf::M32)
        };
        let fits = |leaf: &Leaf| {
            let options = with(*leaf);
            groups(image, strategy, &options)
                .iter()
                .any(|group| is_worth_it(group, &image.segments, &options))
        };
        let leaf = leaves().find(fits).or_else(|| leaves().last());
        with(leaf.unwrap_or(geometry.pmd))
    }
}

/// A rewrite, decided. The new file is the old one with `moves` carried out and its header tables
/// replaced; what no move covers is a hole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The weakest strategy that does all of this.
    pub strategy: Strategy,
    /// The leaf it is made for.
    pub leaf: Leaf,
    /// The new PT_LOADs.
    pub segments: Vec<Segment>,
    /// The new program headers; merging makes them fewer.
    pub headers: Vec<ProgramHeader>,
    /// For each PT_LOAD of the old file, how far its bytes move (bytes, towards the end).
    pub shifts: Vec<u64>,
    /// The old file, cut into ranges that move by one distance each, in order.
    pub moves: Vec<Move>,
    /// e_phoff of the new file.
    pub program_table: u64,
    /// e_shoff of the new file; 0 if there is none.
    pub section_table: u64,
    /// Length of the new file in bytes, holes included.
    pub file_len: u64,
    /// What it costs.
    pub cost: Cost,
    /// What a user should know first.
    pub warnings: Vec<Warning>,
}

/// What a plan costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// Bytes the file becomes longer, holes included.
    pub apparent: u64,
    /// Bytes of disk it takes in addition, at most: blocks that a cut divides.
    pub disk: u64,
    /// Bytes of page cache, at most, that hold nothing but zeros once the text is in leaves.
    pub memory: u64,
    /// Bits of load address randomness that the larger alignment takes.
    pub aslr_bits: u32,
}

/// What a plan changes beyond the place of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// Read-only data becomes executable.
    BecomesExecutable {
        /// Its addresses in the image.
        addresses: Span,
    },
    /// The program header table lies in a segment that moves otherwise than the first one. Kernels
    /// before 5.18 compute AT_PHDR from the first one (binfmt_elf.c, load_elf_binary()).
    ProgramHeadersMove,
}

/// Why no plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// No PT_LOAD with PF_X has file bytes.
    #[error("no text")]
    NoText,
    /// No text segment holds a window.
    #[error("no text segment holds a window of {leaf}")]
    Small {
        /// The leaf.
        leaf: Leaf,
    },
    /// All text that holds windows is writable as well.
    #[error("the text is writable")]
    Writable,
    /// `Align` was asked for and no text is congruent.
    #[error(
        "incongruent: address and file offset differ by {by:#x} modulo {leaf}; shift mends that"
    )]
    Incongruent {
        /// (p_vaddr − p_offset) mod leaf, in bytes.
        by: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// The incongruent text holds the ELF header, which must stay at offset 0.
    #[error("the text begins with the ELF header, whose address {vaddr:#x} is not {leaf}-aligned")]
    Pinned {
        /// p_vaddr.
        vaddr: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// Loaders align the address of the first PT_LOAD, not the load bias; both are the same only
    /// if p_vaddr of the first is aligned.
    #[error("the image begins at {vaddr:#x}, so loaders do not place it {leaf}-aligned")]
    FirstAddress {
        /// p_vaddr of the first PT_LOAD.
        vaddr: u64,
        /// The leaf.
        leaf: Leaf,
    },
    /// The file has data after everything its headers name.
    #[error(
        "{bytes} bytes follow the ELF image; a program that reads itself by file offset would no longer find them"
    )]
    AppendedData {
        /// How many.
        bytes: u64,
    },
    /// A PT_LOAD cannot be mapped with the base page: the file was linked for smaller ones.
    #[error(
        "linked for pages smaller than {page}: the PT_LOAD at {vaddr:#x} cannot be mapped by them"
    )]
    Page {
        /// p_vaddr.
        vaddr: u64,
        /// The base page.
        page: Leaf,
    },
    /// Two PT_LOADs share bytes of the file, so they cannot move apart.
    #[error("the PT_LOADs at {first:#x} and {second:#x} share bytes of the file")]
    FileOverlap {
        /// p_vaddr of the one that begins first in the file.
        first: u64,
        /// p_vaddr of the other.
        second: u64,
    },
    /// DT_TEXTREL or DF_TEXTREL: the loader writes to the text, which makes it private memory.
    #[error("text relocations: the loader writes to the text, so it is private memory")]
    TextRelocations,
    /// Header tables share bytes of the file with each other or with the ELF header.
    #[error("the header tables share bytes of the file")]
    TablesOverlap,
    /// A program header names bytes that the file does not have.
    #[error("a program header names bytes beyond the end of the file")]
    BeyondEnd,
    /// A header table would be cut in two.
    #[error("{what} spans two segments that would move apart")]
    Torn {
        /// Which.
        what: &'static str,
    },
    /// The new file would be longer than any filesystem holds.
    #[error("the new file would be longer than 2^56 bytes")]
    TooLong,
}

impl Plan {
    /// Whether the file is as it should be already.
    pub fn is_noop(&self, image: &Image) -> bool {
        self.headers == image.headers && self.file_len == image.file_len && self.moves.len() == 1
    }

    /// How far the byte at `offset` of the old file moves, in bytes.
    pub(crate) fn shift_at(&self, offset: u64) -> u64 {
        shift_at(&self.moves, offset)
    }

    /// Bytes of the text of `image` that will lie in windows. What a merge or an extension makes
    /// executable is not text of the program, so it does not count.
    pub fn reached(&self, image: &Image, page: Leaf) -> u64 {
        let reach = reach(&self.segments, page, self.leaf, Bias::aligned(self.leaf));
        let text = || image.segments.iter().filter(|segment| segment.is_text());
        // Two text segments of one mapping name the same windows.
        let mut windows: Vec<Span> = reach.segments.iter().map(|found| found.windows).collect();
        windows.dedup();
        windows
            .iter()
            .flat_map(|windows| text().map(|s| s.file_backed().intersect(windows).len()))
            .sum()
    }
}

/// Decides how to make text of `image` reachable for `options.leaf` by `strategy` at most.
pub fn plan(image: &Image, strategy: Strategy, options: &Options) -> Result<Plan, Refusal> {
    check(image, options)?;
    match strategy {
        Strategy::Align => align(image, options),
        Strategy::Shift => shift(image, options),
        Strategy::Merge => rearrange(image, Strategy::Merge, options),
    }
}

/// The weakest strategy that reaches most: `Shift` where it may and `Align` where it may not.
/// Never merges, because that changes permissions.
pub fn plan_auto(image: &Image, options: &Options) -> Result<Plan, Refusal> {
    plan(image, Strategy::Shift, options)
        .or_else(|refusal| plan(image, Strategy::Align, options).map_err(|_| refusal))
}

/// What stands in the way of every strategy.
fn check(image: &Image, options: &Options) -> Result<(), Refusal> {
    let leaf = options.leaf;
    if !image.segments.iter().any(Segment::is_text) {
        return Err(Refusal::NoText);
    }
    let flags = image.dynamic_value(elf::DT_FLAGS).unwrap_or(0);
    if flags & elf::DF_TEXTREL.0 != 0 || image.dynamic_value(elf::DT_TEXTREL).is_some() {
        return Err(Refusal::TextRelocations);
    }
    let ends = |header: &ProgramHeader| header.offset.checked_add(header.filesz);
    let beyond = |header: &ProgramHeader| ends(header).is_none_or(|end| end > image.file_len);
    if image.headers.iter().any(|h| h.filesz > 0 && beyond(h)) {
        return Err(Refusal::BeyondEnd);
    }
    let tables = [&image.program_table, &image.section_table];
    let [programs, sections] = tables.map(|table| Span::new(table.offset, table.end()));
    let header = Span::new(0, ELF_HEADER);
    if programs.overlaps(&sections) || programs.overlaps(&header) || sections.overlaps(&header) {
        return Err(Refusal::TablesOverlap);
    }
    let unmappable = image
        .segments
        .iter()
        .find(|s| s.filesz > 0 && !options.page.is_aligned(s.vaddr.wrapping_sub(s.offset)));
    if let Some(Segment { vaddr, .. }) = unmappable {
        return Err(Refusal::Page {
            vaddr: *vaddr,
            page: options.page,
        });
    }
    let first = image.segments.first().map_or(0, |first| first.vaddr);
    if image.kind != ObjectKind::Executable && !leaf.is_aligned(options.page.align_down(first)) {
        return Err(Refusal::FirstAddress { vaddr: first, leaf });
    }
    Ok(())
}

fn align(image: &Image, options: &Options) -> Result<Plan, Refusal> {
    let options = &Options {
        extend_tail: false,
        ..*options
    };
    let groups = Group::each_alone(&image.segments);
    require_worth(image, &groups, options)?;
    let placement = Placement {
        moves: Moves::none(image.file_len),
        shifts: vec![0; image.segments.len()],
    };
    assemble(image, Strategy::Align, options, &groups, placement)
}

/// `Shift` where everything is congruent already is `Align`.
fn shift(image: &Image, options: &Options) -> Result<Plan, Refusal> {
    let plan = rearrange(image, Strategy::Shift, options)?;
    let strategy = if plan.moves.len() == 1 {
        Strategy::Align
    } else {
        Strategy::Shift
    };
    Ok(Plan { strategy, ..plan })
}

fn rearrange(image: &Image, strategy: Strategy, options: &Options) -> Result<Plan, Refusal> {
    let segments = &image.segments;
    let groups = groups(image, strategy, options);
    require_worth(image, &groups, options)?;
    let demand = |group: &Group| demand(group, segments, options);
    let extend = |group: &Group| extension(group, segments, options);
    let placement = place(
        segments,
        &groups,
        image.file_len,
        demand,
        extend,
        options.page,
    );
    if placement.moves.last_shift() > 0 {
        if image.appended > 0 {
            return Err(Refusal::AppendedData {
                bytes: image.appended,
            });
        }
        check_file_order(segments)?;
    }
    assemble(image, strategy, options, &groups, placement)
}

/// Merges only where text gains from it.
fn groups(image: &Image, strategy: Strategy, options: &Options) -> Vec<Group> {
    let segments = &image.segments;
    let alone = Group::each_alone(segments);
    if strategy != Strategy::Merge {
        return alone;
    }
    let merged = Group::merged(segments, options.leaf);
    let gains: Vec<Group> = merged
        .into_iter()
        .filter(|group| is_worth_it(group, segments, options))
        .collect();
    let joined = |one: &Group| {
        let mut gains = gains.iter();
        gains.any(|group| group.first <= one.first && one.last <= group.last)
    };
    let mut groups: Vec<Group> = alone.into_iter().filter(|one| !joined(one)).collect();
    groups.extend(&gains);
    groups.sort_by_key(|group| group.first);
    groups
}

fn require_worth(image: &Image, groups: &[Group], options: &Options) -> Result<(), Refusal> {
    let segments = &image.segments;
    if groups
        .iter()
        .any(|group| is_worth_it(group, segments, options))
    {
        return Ok(());
    }
    let writable = segments
        .iter()
        .any(|s| s.is_text() && s.perms.write && s.filesz >= options.leaf.bytes());
    Err(if writable {
        Refusal::Writable
    } else {
        Refusal::Small { leaf: options.leaf }
    })
}

/// Whether text of the group lies in a whole window of its mapping.
fn is_worth_it(group: &Group, segments: &[Segment], options: &Options) -> bool {
    let addresses = group.addresses(segments);
    let end = addresses
        .end
        .saturating_add(extension(group, segments, options));
    let windows = Span::new(
        options
            .leaf
            .align_up(options.page.align_down(addresses.start)),
        options.leaf.align_down(options.page.align_up(end)),
    );
    group
        .members(segments)
        .iter()
        .any(|s| s.is_text() && !s.perms.write && s.file_backed().overlaps(&windows))
}

/// The modulus to which address and offset of a group must be congruent: the leaf where it is
/// worth it; elsewhere what the loader asked for before.
fn demand(group: &Group, segments: &[Segment], options: &Options) -> Leaf {
    let Some(first) = group.members(segments).first() else {
        return options.page;
    };
    let delta = first.vaddr.wrapping_sub(first.offset);
    let asked = Leaf::from_bytes(first.align.max(1)).map(|align| align.max(options.page));
    let kept = [
        asked,
        Some(options.page),
        Some(Leaf::K4),
        Leaf::from_bytes(1),
    ];
    let own = kept
        .into_iter()
        .flatten()
        .find(|align| align.is_aligned(delta))
        .unwrap_or(options.page);
    if is_worth_it(group, segments, options) {
        own.max(options.leaf)
    } else {
        own
    }
}

/// Bytes from the end of the group to the end of its last window, where no other segment is there.
/// What is smaller than a leaf is not padded for.
fn extension(group: &Group, segments: &[Segment], options: &Options) -> u64 {
    let leaf = options.leaf;
    let members = group.members(segments);
    let extends = options.extend_tail
        && members.iter().any(Segment::is_text)
        && members.iter().all(|member| !member.perms.write)
        && members.last().is_some_and(|last| last.memsz == last.filesz);
    let addresses = group.addresses(segments);
    let window = leaf.align_up(addresses.end);
    let next = segments.get(group.last.saturating_add(1));
    let free = next.is_none_or(|next| window <= options.page.align_down(next.vaddr));
    if extends && free && addresses.len() >= leaf.bytes() && window <= LIMIT {
        window - addresses.end
    } else {
        0
    }
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

/// Writes the decisions down as new headers.
fn assemble(
    image: &Image,
    strategy: Strategy,
    options: &Options,
    groups: &[Group],
    placement: Placement,
) -> Result<Plan, Refusal> {
    let Placement { moves, shifts } = placement;
    let segments = new_segments(image, groups, &shifts, options)?;
    let worth: Vec<&Segment> = segments
        .iter()
        .filter(|s| s.is_text() && s.align >= options.leaf.bytes())
        .collect();
    if worth.is_empty() {
        return Err(incongruent(image, groups, options));
    }
    let program_table = Span::new(image.program_table.offset, image.program_table.end());
    if !moves.keeps_whole(program_table) {
        return Err(Refusal::Torn {
            what: "the program header table",
        });
    }
    let section_table = Span::new(image.section_table.offset, image.section_table.end());
    if !moves.keeps_whole(section_table) {
        return Err(Refusal::Torn {
            what: "the section header table",
        });
    }
    let describes = image.headers.iter().filter(|h| h.p_type != elf::PT_LOAD.0);
    for header in describes {
        let end = header.offset.saturating_add(header.filesz);
        if !moves.keeps_whole(Span::new(header.offset, end)) {
            return Err(Refusal::Torn {
                what: "a program header",
            });
        }
    }
    let headers = new_headers(image, groups, &segments, &shifts, &moves);
    let file_len = image
        .file_len
        .checked_add(moves.last_shift())
        .filter(|len| *len <= LIMIT)
        .ok_or(Refusal::TooLong)?;
    let moved = |offset: u64| offset.saturating_add(moves.shift_at(offset));
    Ok(Plan {
        strategy,
        leaf: options.leaf,
        program_table: moved(image.program_table.offset),
        section_table: match image.section_table.offset {
            0 => 0,
            offset => moved(offset),
        },
        file_len,
        cost: cost(image, options, groups, &segments, &moves),
        warnings: warnings(image, groups, &shifts, &moves),
        segments,
        headers,
        shifts,
        moves: moves.into_vec(),
    })
}

fn incongruent(image: &Image, groups: &[Group], options: &Options) -> Refusal {
    let leaf = options.leaf;
    let segments = &image.segments;
    let worth = groups
        .iter()
        .filter(|group| is_worth_it(group, segments, options))
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
        let extension = extension(group, &image.segments, options);
        let offset = first.offset.saturating_add(shift);
        let congruent = options.leaf.is_aligned(first.vaddr.wrapping_sub(offset));
        let align = if congruent && is_worth_it(group, &image.segments, options) {
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
        Segment::new(first.vaddr, offset, filesz, memsz, align, perms).map_err(|_| Refusal::TooLong)
    });
    new.collect()
}

/// The old program headers with each PT_LOAD replaced by that of its group, where it is the
/// group's first, and the others following the bytes they name.
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
        if let Some(segment) = group.and_then(|group| segments.get(group)) {
            headers.push(ProgramHeader {
                flags: header.flags | if segment.perms.exec { elf::PF_X.0 } else { 0 },
                offset: segment.offset,
                filesz: segment.filesz,
                memsz: segment.memsz,
                align: segment.align,
                ..*header
            });
        }
        load += 1;
    }
    shrink_pt_phdr(&mut headers, image);
    headers
}

/// PT_PHDR names the table itself, which is shorter after a merge (gABI, PT_PHDR).
fn shrink_pt_phdr(headers: &mut [ProgramHeader], image: &Image) {
    let removed = image.headers.len().saturating_sub(headers.len()) as u64;
    let bytes = removed.saturating_mul(image.program_table.entry_size);
    for header in headers.iter_mut().filter(|h| h.p_type == elf::PT_PHDR.0) {
        if header.filesz == image.program_table.len() && header.memsz == header.filesz {
            header.filesz = header.filesz.saturating_sub(bytes);
            header.memsz = header.filesz;
        }
    }
}

/// How far a header other than PT_LOAD moves: with its bytes, or, if it has none, with the segment
/// of its address. Headers that name nothing (PT_GNU_STACK) stay.
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
    // What the new mappings hold beyond the old pages is zeros.
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
    let merged = groups.iter().filter(|group| group.first < group.last);
    let read_only = merged.flat_map(|group| {
        let members = group.members(segments).iter();
        members.filter(|member| !member.perms.exec)
    });
    let mut warnings: Vec<Warning> = read_only
        .map(|member| Warning::BecomesExecutable {
            addresses: member.memory(),
        })
        .collect();
    let first = shifts.first().copied().unwrap_or(0);
    if image.kind != ObjectKind::SharedObject && moves.shift_at(image.program_table.offset) != first
    {
        warnings.push(Warning::ProgramHeadersMove);
    }
    warnings
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
