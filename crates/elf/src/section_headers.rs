//! The section headers of the new file.

use object::elf;

use crate::image::Image;
use crate::layout::{shift_at, shift_with};
use crate::operation::Operation;
use crate::plan::{Plan, PlanError, SectionCut};
use crate::purpose::is_payload;
use crate::refusal::Refusal;
use crate::section::Section;

/// New section headers where sh_offset changes. Adjacent ones are one write.
pub(crate) fn section_headers(image: &Image, plan: &Plan) -> Result<Vec<Operation>, PlanError> {
    let names = image.sections.names()?;
    let size = image.encoding.size_of::<Section>();
    let mut writes: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut parts: Vec<u8> = Vec::new();
    for (index, section) in image.sections.iter() {
        let end = section.offset.saturating_add(section.file_size());
        if section.file_size() > 0 && end > image.file_len {
            return Err(Refusal::SectionBeyondEnd { index }.into());
        }
        let cut = plan.sections_cut.iter().find(|cut| cut.index == index);
        let name = names.of(section);
        let mut new = parts_of(section, cut, name);
        for part in &mut new {
            let torn = Refusal::TornSection { index };
            let shift = section_shift(image, plan, part).ok_or(torn)?;
            part.offset = part.offset.saturating_add(shift);
        }
        let [new, second @ ..] = new.as_slice() else {
            continue;
        };
        let moves = new.offset != section.offset;
        if !moves && cut.is_none() {
            continue;
        }
        if moves && is_payload(section, name, section.is_loaded(&image.segments)) {
            return Err(PlanError::Refusal(Refusal::Payload {
                name: String::from_utf8_lossy(name).into_owned(),
                bytes: section.size,
            }));
        }
        for part in second {
            parts.extend(image.encoding.encode(part)?);
        }
        let at = plan.section_table.saturating_add(index * size);
        let new = image.encoding.encode(new)?;
        match writes.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend(new),
            _ => writes.push((at, new)),
        }
    }
    if !parts.is_empty() {
        let end = plan.section_table.saturating_add(image.section_table.len());
        writes.push((end, parts));
    }
    let writes = writes.into_iter();
    Ok(writes
        .map(|(at, bytes)| Operation::Write { at, bytes })
        .collect())
}

/// The section, or its two parts if it is cut.
fn parts_of(section: &Section, cut: Option<&SectionCut>, name: &[u8]) -> Vec<Section> {
    let Some(cut) = cut else {
        return vec![*section];
    };
    let first = Section {
        size: cut.at.saturating_sub(section.addr),
        ..*section
    };
    vec![first, second_part(section, first.size, name)]
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
    let by_bytes = shift_at(&plan.moves, section.offset);
    if section.file_size() > 0 {
        return (by_bytes == shift_at(&plan.moves, bytes - 1)).then_some(by_bytes);
    }
    // A section without bytes (.bss, .tbss) only marks an address, often the boundary of two
    // segments. It follows the segment of its address.
    if !section.is_allocated() {
        return Some(by_bytes);
    }
    let known = (&plan.shifts[..], &plan.moves[..]);
    Some(shift_with(
        &image.segments,
        known,
        section.addr,
        section.offset,
    ))
}
