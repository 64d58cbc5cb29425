//! Turns a plan into an ordered list of operations on files, which the caller carries out.

use hugetext_leaf::{Leaf, Segment, Span};
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::encoding::{FileHeader, Overflow};
use crate::error::ImageError;
use crate::image::Image;
use crate::layout::Move;
use crate::plan::{Plan, PlanError, Refusal};
use crate::purpose::is_payload;
use crate::sections::{Names, Section, for_each_section};
use crate::self_warming::SectionCut;
use crate::source::{ReadAt, read_range};
use crate::symbols::symbols;
use crate::unnamed::{payload_in, unnamed};

/// One step that turns an empty file into the new one. Later steps overwrite earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "operation", rename_all = "kebab-case")]
pub enum Operation {
    /// Sets the length. A range that no other operation fills reads as zeros and takes no disk.
    SetLen {
        /// Length in bytes.
        len: u64,
    },
    /// Copies a range of the old file. Its holes may stay holes.
    Copy {
        /// File offsets in the old file, not empty.
        from: Span,
        /// File offset in the new file.
        to: u64,
    },
    /// Writes bytes.
    Write {
        /// File offset in the new file.
        at: u64,
        /// The bytes.
        #[serde(skip)]
        bytes: Vec<u8>,
    },
}

/// The operations of `plan`. The plan was made for `image`, which was read from `source`.
pub fn rewrite(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Vec<Operation>, PlanError> {
    check_between(source, image, plan)?;
    check_unnamed(source, image, plan)?;
    let mut operations = vec![Operation::SetLen { len: plan.file_len }];
    let copies = plan.moves.iter().filter(|piece| !piece.from.is_empty());
    operations.extend(copies.map(|Move { from, to }| Operation::Copy {
        from: *from,
        to: *to,
    }));
    operations.extend(section_headers(source, image, plan)?);
    operations.extend(symbols(source, image, plan)?);
    operations.push(program_headers(plan)?);
    operations.push(file_header(source, image, plan)?);
    Ok(operations)
}

/// Bytes in the file between two segments that are merged will be mapped with them. The rest of a
/// page was already mapped; beyond that, only zeros are known to mean nothing.
fn check_between(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<(), PlanError> {
    const WHAT: &str = "bytes between segments";
    const CHUNK: u64 = 1 << 18;
    let mapped = continued(&plan.segments);
    let one = |a: &Segment, b: &Segment| {
        let mut new = mapped.iter();
        new.any(|span| span.contains(a.vaddr) && span.contains(b.vaddr))
    };
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
            }
            .into());
        }
        // What follows data in its last page was cleared, if zeros follow it in memory.
        let end = before.file_backed().end;
        let mapped = if before.memsz > before.filesz {
            end
        } else {
            Leaf::K4.align_up(end)
        };
        let mut at = mapped - before.vaddr + before.offset;
        while at < after.offset {
            let len = CHUNK.min(after.offset - at);
            let bytes = read_range(source, at, len, image.file_len, WHAT)?;
            if let Some(found) = bytes.iter().position(|byte| *byte != 0) {
                let offset = at + found as u64;
                return Err(Refusal::BetweenSegments { offset }.into());
            }
            at += len;
        }
    }
    Ok(())
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

/// Bytes that no header names stay at their offset, since their reader can only know that.
fn check_unnamed(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<(), PlanError> {
    let moving = || plan.moves.iter().filter(|piece| piece.shift() > 0);
    if moving().next().is_none() {
        return Ok(());
    }
    for gap in unnamed(source, image)? {
        for piece in moving() {
            let range = gap.intersect(&piece.from);
            if let Some(payload) = payload_in(source, image, range)? {
                return Err(Refusal::Unnamed { range: payload }.into());
            }
        }
    }
    Ok(())
}

fn file_header(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Operation, PlanError> {
    const WHAT: &str = "the file header";
    let bytes = read_range(source, 0, image.file_header().end, image.file_len, WHAT)?;
    let header = image.encoding.decode(&bytes);
    let mut header: FileHeader = header.ok_or(ImageError::Truncated(WHAT))?;
    header.e_phoff = plan.program_table;
    header.e_shoff = plan.section_table;
    // Counts that the header does not hold never change.
    if plan.headers.len() != image.headers.len() {
        header.e_phnum = u16::try_from(plan.headers.len()).unwrap_or(elf::PN_XNUM);
    }
    let sections = image.section_table.count + plan.sections_cut.len() as u64;
    if !plan.sections_cut.is_empty() {
        header.e_shnum = u16::try_from(sections).unwrap_or(0);
    }
    Ok(Operation::Write {
        at: 0,
        bytes: image.encoding.encode(&header)?,
    })
}

/// The new table.
fn program_headers(plan: &Plan) -> Result<Operation, Overflow> {
    let mut bytes = Vec::new();
    for header in &plan.headers {
        bytes.extend(plan.encoding.encode(header)?);
    }
    Ok(Operation::Write {
        at: plan.program_table,
        bytes,
    })
}

/// New section headers where sh_offset changes. Adjacent ones are one write.
fn section_headers(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Vec<Operation>, PlanError> {
    let names = Names::read(source, image)?;
    let size = image.encoding.size_of::<Section>();
    let mut writes: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut parts: Vec<u8> = Vec::new();
    for_each_section(source, image, |index, section| {
        let end = section.offset.saturating_add(section.file_size());
        if section.file_size() > 0 && end > image.file_len {
            return Err(Refusal::SectionBeyondEnd { index }.into());
        }
        let cut = plan.sections_cut.iter().find(|cut| cut.index == index);
        let head = match cut {
            None => section,
            Some(cut) => first_part(&section, cut),
        };
        let torn = Refusal::TornSection { index };
        let shift = section_shift(image, plan, &head).ok_or(torn)?;
        if shift == 0 && cut.is_none() {
            return Ok(());
        }
        let name = names.as_ref().map_or(&b""[..], |names| names.of(&section));
        if shift > 0 && is_payload(&section, name, section.is_loaded(image)) {
            return Err(PlanError::Refusal(Refusal::Payload {
                name: String::from_utf8_lossy(name).into_owned(),
                bytes: section.size,
            }));
        }
        let mut new = section;
        new.offset = section.offset.saturating_add(shift);
        if cut.is_some() {
            let mut second = second_part(&section, head.size, name);
            let torn = Refusal::TornSection { index };
            let shift = section_shift(image, plan, &second).ok_or(torn)?;
            second.offset = second.offset.saturating_add(shift);
            parts.extend(image.encoding.encode(&second)?);
            new.size = head.size;
        }
        let at = plan.section_table.saturating_add(index * size);
        let new = image.encoding.encode(&new)?;
        match writes.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend(new),
            _ => writes.push((at, new)),
        }
        Ok::<_, PlanError>(())
    })?;
    if !parts.is_empty() {
        let end = plan.section_table.saturating_add(image.section_table.len());
        writes.push((end, parts));
    }
    let writes = writes.into_iter();
    Ok(writes
        .map(|(at, bytes)| Operation::Write { at, bytes })
        .collect())
}

/// The header of a section up to where it is cut.
fn first_part(section: &Section, cut: &SectionCut) -> Section {
    Section {
        size: cut.at.saturating_sub(section.addr),
        ..*section
    }
}

/// The header of what remains of a section, of this name, after its first `head` bytes. Its name lacks the first
/// letter, since the string table has that too: Valgrind names no function of a file with two sections `.text`.
fn second_part(section: &Section, head: u64, name: &[u8]) -> Section {
    let skipped = u32::from(name.len() > 1);
    Section {
        name: section.name.saturating_add(skipped),
        addr: section.addr.saturating_add(head),
        offset: section.offset.saturating_add(head),
        size: section.size.saturating_sub(head),
        ..*section
    }
}

/// How far a section moves; `None` if its bytes would be divided.
fn section_shift(image: &Image, plan: &Plan, section: &Section) -> Option<u64> {
    if section.sh_type == elf::SHT_NULL.0 {
        return Some(0);
    }
    let bytes = section.offset.checked_add(section.file_size())?;
    let by_bytes = plan.shift_at(section.offset);
    if section.file_size() > 0 {
        return (by_bytes == plan.shift_at(bytes - 1)).then_some(by_bytes);
    }
    // A section without bytes (.bss, .tbss) only marks an address, often the boundary of two
    // segments. It follows the segment of its address.
    if !section.is_allocated() {
        return Some(by_bytes);
    }
    let holder = image.holder_of(section.addr, section.offset);
    Some(
        holder
            .and_then(|index| plan.shifts.get(index).copied())
            .unwrap_or(by_bytes),
    )
}
