//! Cuts the text of a plan at a window boundary, so that loaders ask for huge folios themselves.
//!
//! Such loaders ask only for a PT_LOAD whose address and offset are multiples of the leaf (glibc
//! 2.44 with glibc.elf.thp, `_dl_segment_thp_eligible()`). Ordinary text begins elsewhere. After a
//! cut at its first window that nothing reads early, the rest of the text is such a PT_LOAD.
//! Addresses and bytes stay, and the kernel joins the two mappings again (`vma_merge_new_range()`,
//! mm/vma.c). Sections are cut at the same address: GNU strip drops the bytes of a section that is not wholly
//! inside one PT_LOAD. No section is divided that tools read as a whole, such as a string table.

use hugetext_leaf::{EarlyRead, Leaf, Segment, Span};

use crate::admit::admit;
use crate::cut::cut;
use crate::decide::{Data, layout_with_data_joined};
use crate::distance::apart;
use crate::early::early_reads;
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::refusal::Refusal;
use crate::source::ReadAt;
use crate::whole_sections::WholeSections;

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
    let whole = WholeSections::of(image)?;
    if cuts(&plan, options.page, &whole).is_empty() {
        return Ok(plan);
    }
    let mut found = None;
    for data in [Data::Apart, Data::Joined] {
        let layout = match data {
            Data::Apart => plan.clone(),
            // Joined data frees program headers.
            Data::Joined => layout_with_data_joined(image, plan.strategy, options)
                .map_err(|_| Refusal::NoRoom)?,
        };
        let cuts = cuts(&layout, options.page, &whole);
        match cut(source, image, layout, cuts) {
            Err(PlanError::Refusal(Refusal::NoRoom)) => {}
            decided => {
                found = Some((decided?, data));
                break;
            }
        }
    }
    let (found, data) = found.ok_or(Refusal::NoRoom)?;
    let apart = apart(image, &found, readahead);
    let mut refusal = Refusal::NoRoom;
    // Something in the file may not move so far.
    for candidate in apart.into_iter().chain([found]) {
        match admit(source, image, candidate, options) {
            Err(PlanError::Refusal(refused)) => refusal = refused,
            decided => return decided,
        }
    }
    Err(match data {
        Data::Apart => refusal,
        // Data moves, which `plan` may not have done: bytes may lie where none may move.
        Data::Joined => Refusal::NoRoom,
    }
    .into())
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
