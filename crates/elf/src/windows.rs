//! Which ranges of text to cut, so that loaders ask for huge folios there.

use hugetext_leaf::{EarlyRead, Leaf, Segment, Span};

use crate::cut::Form;
use crate::loaded_sections::LoadedSections;
use crate::plan::Plan;

/// The ranges of text to cut in this form, those of most windows first.
pub(crate) fn cuts(plan: &Plan, form: Form, sections: &LoadedSections, page: Leaf) -> Vec<Span> {
    let early = plan.early_reads();
    // Loaders go by where the last PT_LOAD begins and ends.
    let last = plan.segments.last();
    let ranges = plan.segments.iter().filter_map(|segment| {
        let windows = Windows::of(segment, plan.leaf, page, &early)?;
        match form {
            Form::InTwo => windows.in_two(sections),
            Form::Repeated if last == Some(segment) => None,
            Form::Repeated => windows.repeated(sections),
        }
    });
    let mut found: Vec<Span> = ranges.collect();
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

    /// All from the first at whose begin no section is divided that must stay whole.
    fn in_two(&self, sections: &LoadedSections) -> Option<Span> {
        let mut begins = self.clean();
        let at = begins.find(|at| !sections.forbid_cut_at(*at))?;
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
