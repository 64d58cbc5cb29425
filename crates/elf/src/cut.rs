//! Cuts PT_LOADs, and the sections in them, at given addresses.

use hugetext_leaf::Segment;
use object::elf;

use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::plan::{Plan, PlanError, SectionCut, Warning};
use crate::refusal::Refusal;
use crate::room::{behind_table, spare};
use crate::section::Section;
use crate::source::ReadAt;

/// The plan with the text cut at these addresses, or at as many as there is room for.
pub(crate) fn cut(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: Plan,
    mut cuts: Vec<u64>,
) -> Result<Plan, PlanError> {
    let mut spare = spare(&plan.headers, image);
    let missing = cuts.len().saturating_sub(spare.len());
    // The bytes behind the table are free in the new file if they are in the old one, since both
    // move together or not at all.
    let behind = match missing {
        0 => 0,
        _ => behind_table(source, image, missing as u64)?,
    };
    let room = spare.len().saturating_add(behind as usize);
    if room == 0 {
        return Err(Refusal::NoRoom.into());
    }
    cuts.truncate(room);
    spare.truncate(cuts.len());
    let with_headers = with_headers(plan, &cuts, &spare);
    Ok(with_sections(image, with_headers, &cuts)?)
}

/// The plan with the PT_LOADs cut, in place of the entries `spare`, or in addition to them.
fn with_headers(plan: Plan, cuts: &[u64], spare: &[usize]) -> Plan {
    let leaf = plan.leaf.bytes();
    let mut warnings = plan.warnings;
    let mut headers: Vec<ProgramHeader> = Vec::with_capacity(plan.headers.len());
    for (index, header) in plan.headers.iter().enumerate() {
        if spare.contains(&index) {
            if header.p_type != elf::PT_NULL.0 {
                let p_type = header.p_type;
                warnings.push(Warning::LeftOut { p_type });
            }
            continue;
        }
        let is_cut = |at: &&u64| {
            let inside = header.vaddr < **at && **at - header.vaddr < header.filesz;
            header.p_type == elf::PT_LOAD.0 && inside
        };
        let Some(at) = cuts.iter().find(is_cut) else {
            headers.push(*header);
            continue;
        };
        let head = at - header.vaddr;
        headers.push(ProgramHeader {
            filesz: head,
            memsz: head,
            align: header.align.max(leaf),
            ..*header
        });
        headers.push(ProgramHeader {
            offset: header.offset.saturating_add(head),
            vaddr: *at,
            paddr: header.paddr.wrapping_add(head),
            filesz: header.filesz - head,
            memsz: header.memsz.saturating_sub(head),
            align: header.align.max(leaf),
            ..*header
        });
    }
    let added = headers.len().saturating_sub(plan.headers.len()) as u64;
    let grown = added.saturating_mul(plan.encoding.size_of::<ProgramHeader>());
    for header in &mut headers {
        if header.p_type == elf::PT_PHDR.0 {
            header.filesz = header.filesz.saturating_add(grown);
            header.memsz = header.memsz.saturating_add(grown);
        }
    }
    let segments = plan.segments.iter().flat_map(|segment| {
        let cut = cuts
            .iter()
            .find(|at| segment.vaddr < **at && **at - segment.vaddr < segment.filesz);
        cut_segment(segment, cut.copied(), leaf)
    });
    Plan {
        segments: segments.collect(),
        headers,
        warnings,
        ..plan
    }
}

fn cut_segment(segment: &Segment, at: Option<u64>, leaf: u64) -> Vec<Segment> {
    let Some(at) = at else {
        return vec![*segment];
    };
    let len = at - segment.vaddr;
    let mut head = *segment;
    (head.filesz, head.memsz) = (len, len);
    head.align = segment.align.max(leaf);
    let mut rest = *segment;
    rest.vaddr = at;
    rest.offset += len;
    rest.filesz -= len;
    rest.memsz -= len;
    rest.align = head.align;
    vec![head, rest]
}

/// The plan with the section that each cut divides, in the order of the file, and room for the second parts at the end
/// of the section header table.
fn with_sections(image: &Image, plan: Plan, cuts: &[u64]) -> Result<Plan, Refusal> {
    let (mut found, mut relocated) = (Vec::new(), Vec::new());
    for (index, section) in image.sections.iter() {
        if section.sh_type == elf::SHT_SYMTAB_SHNDX.0 {
            return Err(Refusal::ManySections);
        }
        let is_relocation = [elf::SHT_RELA.0, elf::SHT_REL.0].contains(&section.sh_type);
        if is_relocation && !section.is_allocated() {
            relocated.push(u64::from(section.info));
        }
        if !section.is_loaded(&image.segments) || section.file_size() == 0 {
            continue;
        }
        let end = section.addr.saturating_add(section.size);
        let inside = cuts.iter().filter(|at| section.addr < **at && **at < end);
        for at in inside {
            let align = section.align.max(1);
            if found.iter().any(|cut: &SectionCut| cut.index == index) || !at.is_multiple_of(align)
            {
                return Err(Refusal::SectionAt { index, at: *at });
            }
            found.push(SectionCut { index, at: *at });
        }
    }
    let mut cut_sections = found.iter();
    if let Some(SectionCut { index, .. }) = cut_sections.find(|cut| relocated.contains(&cut.index))
    {
        return Err(Refusal::Relocations { index: *index });
    }
    if found.is_empty() {
        return Ok(plan);
    }
    // Readers find data after the image by its distance from the end of the file.
    if image.appended > 0 {
        let bytes = image.appended;
        return Err(Refusal::AppendedData { bytes });
    }
    let table = &image.section_table;
    let count = table.count.saturating_add(found.len() as u64);
    // Larger counts and indexes are written elsewhere (gABI, e_shnum).
    if count >= u64::from(elf::SHN_LORESERVE)
        || image.section_names >= u64::from(elf::SHN_LORESERVE)
    {
        return Err(Refusal::ManySections);
    }
    if table.end() != image.file_len {
        return Err(Refusal::SectionTable);
    }
    let len = count.saturating_mul(image.encoding.size_of::<Section>());
    let file_len = plan.section_table.saturating_add(len);
    if file_len > image.largest() {
        return Err(Refusal::TooLarge {
            most: image.largest(),
        });
    }
    Ok(Plan {
        file_len,
        sections_cut: found,
        ..plan
    })
}
