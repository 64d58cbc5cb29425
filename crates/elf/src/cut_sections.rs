//! Cuts the sections of PT_LOADs that are cut in two, at the same addresses: GNU strip drops the bytes of a section that is
//! not wholly inside of one PT_LOAD.

use hugetext_leaf::Span;
use object::elf;

use crate::image::Image;
use crate::plan::{Plan, SectionCut};
use crate::refusal::Refusal;
use crate::section::Section;

/// The plan with the sections cut that its PT_LOADs divide where these ranges begin.
pub(crate) fn with_sections_cut(image: &Image, plan: Plan, cuts: &[Span]) -> Result<Plan, Refusal> {
    let sections = sections_to_cut(image, cuts)?;
    with_sections(image, plan, sections)
}

/// The section that each cut divides, in the order of the file.
fn sections_to_cut(image: &Image, cuts: &[Span]) -> Result<Vec<SectionCut>, Refusal> {
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
        let starts = cuts.iter().map(|cut| cut.start);
        let inside = starts.filter(|at| section.addr < *at && *at < end);
        for at in inside {
            let align = section.align.max(1);
            if found.iter().any(|cut: &SectionCut| cut.index == index) || !at.is_multiple_of(align)
            {
                return Err(Refusal::SectionAt { index, at });
            }
            found.push(SectionCut { index, at });
        }
    }
    match found.iter().find(|cut| relocated.contains(&cut.index)) {
        Some(SectionCut { index, .. }) => Err(Refusal::Relocations { index: *index }),
        None => Ok(found),
    }
}

/// The plan with room for the second parts of `sections` at the end of the section header table.
fn with_sections(image: &Image, plan: Plan, sections: Vec<SectionCut>) -> Result<Plan, Refusal> {
    if sections.is_empty() {
        return Ok(plan);
    }
    // Readers find data after the image by its distance from the end of the file.
    if image.appended > 0 {
        let bytes = image.appended;
        return Err(Refusal::AppendedData { bytes });
    }
    let table = &image.section_table;
    let count = table.count.saturating_add(sections.len() as u64);
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
        sections_cut: sections,
        ..plan
    })
}
