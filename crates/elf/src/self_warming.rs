//! Cuts the text of a plan at a window boundary, so that loaders ask for huge folios themselves.
//!
//! Such loaders ask only for a PT_LOAD whose address and offset are multiples of the leaf (glibc
//! 2.44 with glibc.elf.thp, `_dl_segment_thp_eligible()`). Ordinary text begins elsewhere. So a second PT_LOAD repeats the
//! windows of the text that nothing reads early. Addresses and bytes stay, and so do all sections. The kernel
//! joins the mappings again (`vma_merge_new_range()`, mm/vma.c). The second PT_LOAD holds no section wholly: GNU strip would
//! place that twice, and leave zeros in one place.
//!
//! Where holes of the file must keep a long readahead away from the windows, the text is cut in two instead. Its sections
//! are then cut at the same address. None is divided that tools read as a whole, such as a string table.

use hugetext_leaf::{EarlyRead, Leaf, Segment, Span};

use crate::admit::admit;
use crate::cut::{Form, cut};
use crate::cut_sections::with_sections_cut;
use crate::decide::layout_with_data_joined;
use crate::distance::apart;
use crate::early::early_reads;
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::refusal::Refusal;
use crate::repeats::has_repeats;
use crate::source::ReadAt;
use crate::whole_sections::{LoadedSections, WholeSections};

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
    if let Some(apart) = cut_apart(source, image, &plan, options, readahead)? {
        return Ok(apart);
    }
    let sections = LoadedSections::of(image);
    let repeated = |plan: &Plan| {
        // Loaders go by where the last PT_LOAD begins and ends.
        let last = plan.segments.last();
        let choose = |windows: &Windows<'_>| {
            let others = last.is_some_and(|last| windows.segment != last);
            others.then(|| windows.repeated(&sections)).flatten()
        };
        cuts(plan, options.page, choose)
    };
    let cuts = repeated(&plan);
    if cuts.is_empty() || has_repeats(&plan.headers) {
        return Ok(plan);
    }
    let found = match cut(source, image, plan.clone(), cuts, Form::Repeated) {
        Err(PlanError::Refusal(Refusal::NoRoom)) => {
            cut_with_data_joined(source, image, &plan, options, |joined| {
                let cuts = repeated(&joined);
                cut(source, image, joined, cuts, Form::Repeated)
            })?
        }
        decided => decided?,
    };
    admit(source, image, found, options)
}

/// The plan with the text cut in two, and holes between; `None` where it needs none, or may not be so.
fn cut_apart(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
    options: &Options,
    readahead: u64,
) -> Result<Option<Plan>, PlanError> {
    if readahead == 0 {
        return Ok(None);
    }
    let whole = WholeSections::of(image)?;
    let ranges = |plan: &Plan| cuts(plan, options.page, |windows| windows.in_two(&whole));
    if ranges(plan).is_empty() {
        return Ok(None);
    }
    let in_two = |plan: Plan| {
        let cuts = ranges(&plan);
        let cut = cut(source, image, plan, cuts.clone(), Form::InTwo)?;
        Ok(with_sections_cut(image, cut, &cuts)?)
    };
    let found = match in_two(plan.clone()) {
        Err(PlanError::Refusal(Refusal::NoRoom)) => {
            cut_with_data_joined(source, image, plan, options, in_two)
        }
        decided => decided,
    };
    let admitted = found.and_then(|found| {
        let apart = apart(image, &found, readahead);
        // A hole parts text from text behind it with which it fills a window.
        let reached = |plan: &Plan| plan.reached(image, options.page);
        apart
            .filter(|apart| reached(apart) >= reached(&found))
            .map(|apart| admit(source, image, apart, options))
            .transpose()
    });
    match admitted {
        // Something in the file may not move so far, or may not be cut.
        Err(PlanError::Refusal(_)) => Ok(None),
        decided => decided,
    }
}

/// As `cut` does, with room for the cut by joining data.
fn cut_with_data_joined(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
    options: &Options,
    cut: impl FnOnce(Plan) -> Result<Plan, PlanError>,
) -> Result<Plan, PlanError> {
    let no_room = |_| Refusal::NoRoom;
    let joined = layout_with_data_joined(image, plan.strategy, options).map_err(no_room)?;
    let joined = cut(joined)?;
    // Data moves, which `plan` may not have done: bytes may lie where none may move.
    match admit(source, image, joined, options) {
        Err(PlanError::Refusal(_)) => Err(Refusal::NoRoom.into()),
        admitted => admitted,
    }
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

    /// Whether a PT_LOAD of the new file repeats windows of its text.
    pub fn repeats_text(&self) -> bool {
        has_repeats(&self.headers)
    }
}

/// The ranges of text to cut, those of most windows first: what `choose` takes of each segment.
fn cuts(plan: &Plan, page: Leaf, choose: impl Fn(&Windows<'_>) -> Option<Span>) -> Vec<Span> {
    let early = plan.early_reads();
    let windows = plan.segments.iter().filter_map(|segment| {
        let windows = Windows::of(segment, plan.leaf, page, &early)?;
        choose(&windows)
    });
    let mut found: Vec<Span> = windows.collect();
    found.sort_unstable_by_key(|range| (range.len(), range.start));
    found.reverse();
    found
}

/// The windows of a text segment for which loaders do not ask, because it begins elsewhere.
struct Windows<'p> {
    segment: &'p Segment,
    leaf: Leaf,
    page: Leaf,
    early: &'p [EarlyRead],
}

impl<'p> Windows<'p> {
    fn of(
        segment: &'p Segment,
        leaf: Leaf,
        page: Leaf,
        early: &'p [EarlyRead],
    ) -> Option<Windows<'p>> {
        let delta = segment.vaddr.wrapping_sub(segment.offset);
        let is_read_only = segment.is_text() && !segment.perms.write && segment.perms.read;
        let windows = Windows {
            segment,
            leaf,
            page,
            early,
        };
        let begins_elsewhere = windows.clean().next()? > segment.vaddr;
        (is_read_only && leaf.is_aligned(delta) && begins_elsewhere).then_some(windows)
    }

    /// Where the windows begin that hold no early read. They begin at multiples of p_align, so that loaders which take
    /// that for the page map both parts.
    fn clean(&self) -> impl Iterator<Item = u64> {
        let (segment, leaf) = (self.segment, self.leaf);
        let delta = segment.vaddr.wrapping_sub(segment.offset);
        let end = leaf.align_down(self.page.align_up(segment.file_backed().end));
        let align = Leaf::from_bytes(segment.align).map_or(leaf, |align| align.max(leaf));
        let first = align.align_up(segment.vaddr);
        // Early reads are few. Sections may be long, but a step is short.
        (0..)
            .map(move |index: u64| first.saturating_add(index.saturating_mul(align.bytes())))
            .take_while(move |at| *at < end)
            .filter(move |at| {
                let offset = at.wrapping_sub(delta);
                let window = Span::new(offset, offset.saturating_add(leaf.bytes()));
                !self.early.iter().any(|read| read.file.overlaps(&window))
            })
    }

    /// All from the first at whose begin no section of `whole` is divided.
    fn in_two(&self, whole: &WholeSections) -> Option<Span> {
        let mut begins = self.clean();
        let at = begins.find(|at| !whole.are_divided_at(*at))?;
        Some(Span::new(at, self.segment.file_backed().end))
    }

    /// The longest range of them that holds no section wholly.
    fn repeated(&self, sections: &LoadedSections) -> Option<Span> {
        let end = self.segment.file_backed().end;
        // Zeros follow in the last page, which loaders clear for the PT_LOAD around.
        let end = if self.segment.memsz > self.segment.filesz {
            self.page.align_down(end)
        } else {
            end
        };
        let ranges = self.clean().map(|at| {
            let to = sections.holding_none(at, end, self.page);
            Span::new(at, to.max(at))
        });
        let windows = |range: &Span| {
            let end = self.leaf.align_down(self.page.align_up(range.end));
            end.saturating_sub(range.start) / self.leaf.bytes()
        };
        let ranges = ranges.filter(|range| windows(range) > 0);
        // The first of the longest.
        ranges.max_by_key(|range| (windows(range), std::cmp::Reverse(range.start)))
    }
}
