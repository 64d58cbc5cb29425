//! Cuts the text of a plan at a window boundary, so that loaders ask for huge folios themselves.
//!
//! Such loaders ask only for a PT_LOAD whose address and offset are multiples of the leaf (glibc
//! 2.44 with glibc.elf.thp, `_dl_segment_thp_eligible()`). Ordinary text begins elsewhere. After a
//! cut at its first window that nothing reads early, the rest of the text is such a PT_LOAD.
//! Addresses and bytes stay, and the kernel joins the two mappings again (`vma_merge_new_range()`,
//! mm/vma.c). Sections are cut at the same address: GNU strip drops the bytes of a section that is not wholly
//! inside one PT_LOAD. No section is divided that tools read as a whole, such as a string table.

use hugetext_leaf::{EarlyRead, Leaf, Segment, Span};
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admit::admit;
use crate::decide::layout_with_data_joined;
use crate::distance::apart;
use crate::early::early_reads;
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;
use crate::options::Options;
use crate::plan::{Plan, PlanError, Refusal, Warning};
use crate::room::{behind_table, spare};
use crate::sections::{Section, for_each_section};
use crate::source::ReadAt;
use crate::whole_sections::WholeSections;

/// A section that is cut in two. The second part becomes a section at the end of the section header table. Its name
/// lacks the first letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SectionCut {
    /// Its index in the old file.
    pub index: u64,
    /// The first address of the second part.
    pub at: u64,
}

/// The plan with the text cut where that makes loaders ask for more of its windows. It is `plan`
/// itself if no cut does. `plan` was made for `image` by `options`; `image` was read from `source`. Where it can, what is
/// cut is kept clear of a `readahead` of this many bytes; 0 needs nothing.
pub fn self_warming(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: Plan,
    options: &Options,
    readahead: u64,
) -> Result<Plan, PlanError> {
    // Most files have no text to cut. Their sections need not be read.
    if cuts(&plan, options.page, &WholeSections::default()).is_empty() {
        return Ok(plan);
    }
    let whole = WholeSections::read(source, image)?;
    let cuts = cuts(&plan, options.page, &whole);
    if cuts.is_empty() {
        return Ok(plan);
    }
    let found = match cut(source, image, plan.clone(), cuts) {
        Err(PlanError::Refusal(Refusal::NoRoom)) => {
            cut_with_data_joined(source, image, &plan, options, &whole)?
        }
        decided => decided?,
    };
    if let Some(apart) = apart(image, &found, readahead) {
        match admit(source, image, apart, options) {
            // Something in the file may not move so far.
            Err(PlanError::Refusal(_)) => {}
            decided => return decided,
        }
    }
    admit(source, image, found, options)
}

/// As [`self_warming`], with room for the cut by joining data.
fn cut_with_data_joined(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
    options: &Options,
    whole: &WholeSections,
) -> Result<Plan, PlanError> {
    let no_room = |_| Refusal::NoRoom;
    let joined = layout_with_data_joined(image, plan.strategy, options).map_err(no_room)?;
    let cuts = cuts(&joined, options.page, whole);
    let joined = cut(source, image, joined, cuts)?;
    // Data moves, which `plan` may not have done: bytes may lie where none may move.
    match admit(source, image, joined, options) {
        Err(PlanError::Refusal(_)) => Err(Refusal::NoRoom.into()),
        admitted => admitted,
    }
}

/// The plan with the text cut at these addresses, or at as many as there is room for.
fn cut(
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
    let sections = sections_to_cut(source, image, &cuts)?;
    let with_headers = with_headers(plan, &cuts, &spare);
    Ok(with_sections(image, with_headers, sections)?)
}

impl Plan {
    /// What is read of the new file before a loader asks for huge folios, as
    /// [`Image::early_reads`].
    pub fn early_reads(&self) -> Vec<EarlyRead> {
        let table = Table {
            offset: self.program_table,
            count: self.headers.len() as u64,
            entry_size: self.encoding.size_of::<ProgramHeader>(),
        };
        early_reads(self.encoding, &self.headers, &table)
    }
}

/// The addresses at which to cut, those that free most text first.
fn cuts(plan: &Plan, page: Leaf, whole: &WholeSections) -> Vec<u64> {
    let early = plan.early_reads();
    let mut found: Vec<(u64, u64)> = plan
        .segments
        .iter()
        .filter_map(|segment| {
            let at = cut_of(segment, plan.leaf, page, &early, whole)?;
            Some((segment.file_backed().end - at, at))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().rev().map(|(_, at)| at).collect()
}

/// The first window of a text segment that holds no byte of `early`, if the segment begins before
/// it and ends after it, and at whose begin no section of `whole` is divided. It begins at a multiple
/// of p_align, so that loaders which take that for the page map both parts.
fn cut_of(
    segment: &Segment,
    leaf: Leaf,
    page: Leaf,
    early: &[EarlyRead],
    whole: &WholeSections,
) -> Option<u64> {
    let delta = segment.vaddr.wrapping_sub(segment.offset);
    if !segment.is_text() || segment.perms.write || !segment.perms.read || !leaf.is_aligned(delta) {
        return None;
    }
    let end = leaf.align_down(page.align_up(segment.file_backed().end));
    let is_clean = |at: &u64| {
        let offset = at.wrapping_sub(delta);
        let window = Span::new(offset, offset.saturating_add(leaf.bytes()));
        !early.iter().any(|read| read.file.overlaps(&window)) && !whole.are_divided_at(*at)
    };
    let align = Leaf::from_bytes(segment.align).map_or(leaf, |align| align.max(leaf));
    let first = align.align_up(segment.vaddr);
    // Early reads are few. Sections may be long, but a step is short.
    let at = (0..)
        .map(|index: u64| first.saturating_add(index.saturating_mul(align.bytes())))
        .take_while(|at| *at < end)
        .find(is_clean)?;
    (at > segment.vaddr).then_some(at)
}

/// The section that each cut divides, in the order of the file.
fn sections_to_cut(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    cuts: &[u64],
) -> Result<Vec<SectionCut>, PlanError> {
    let (mut found, mut relocated) = (Vec::new(), Vec::new());
    for_each_section(source, image, |index, section| {
        if section.sh_type == elf::SHT_SYMTAB_SHNDX.0 {
            return Err(Refusal::ManySections.into());
        }
        let is_relocation = [elf::SHT_RELA.0, elf::SHT_REL.0].contains(&section.sh_type);
        if is_relocation && !section.is_allocated() {
            relocated.push(u64::from(section.info));
        }
        if !section.is_loaded(image) || section.file_size() == 0 {
            return Ok(());
        }
        let end = section.addr.saturating_add(section.size);
        let inside = cuts.iter().filter(|at| section.addr < **at && **at < end);
        for at in inside {
            let align = section.align.max(1);
            if found.iter().any(|cut: &SectionCut| cut.index == index) || !at.is_multiple_of(align)
            {
                return Err(Refusal::SectionAt { index, at: *at }.into());
            }
            found.push(SectionCut { index, at: *at });
        }
        Ok::<_, PlanError>(())
    })?;
    match found.iter().find(|cut| relocated.contains(&cut.index)) {
        Some(SectionCut { index, .. }) => Err(Refusal::Relocations { index: *index }.into()),
        None => Ok(found),
    }
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
