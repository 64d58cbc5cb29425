//! Decides from a file's headers alone how to change it so that leaves can map its text.

use hugetext_leaf::{Geometry, Leaf, ObjectKind, Segment, Span};
use object::elf;

use crate::assemble::assemble;
use crate::group::Group;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::{OldFile, Placement, place};
use crate::options::{MovedText, Options, Strategy};
use crate::plan::Plan;
use crate::refusal::Refusal;

impl Options {
    /// The largest leaf of `geometry` of which text of `image` holds a window under `strategy`.
    /// Leaves above 32 MiB do not count, because the kernel does not align images to them. The
    /// result is the smallest leaf if none fits, so that a plan can report that.
    pub fn for_image(image: &Image, geometry: &Geometry, strategy: Strategy) -> Options {
        let with = |leaf| Options {
            leaf,
            page: geometry.page,
            extend_tail: false,
            moved: MovedText::Nearest,
        };
        let leaves = || {
            geometry
                .leaves()
                .map(|(_, leaf)| leaf)
                .filter(|leaf| *leaf <= Leaf::M32)
        };
        let fits = |leaf: &Leaf| {
            let options = with(*leaf);
            Group::of(&image.segments, strategy, &options)
                .iter()
                .any(|group| group.is_worth_it(&image.segments, &options))
        };
        let leaf = leaves().find(fits).or_else(|| leaves().last());
        with(leaf.unwrap_or(geometry.pmd))
    }
}

/// Decides by headers alone how to make text of `image` reachable for `options.leaf` by `strategy` at most. What
/// lies between the headers may still forbid it: [`crate::plan`] looks at that too. If everything is congruent already,
/// `Shift` becomes `Align`.
pub fn layout(image: &Image, strategy: Strategy, options: &Options) -> Result<Plan, Refusal> {
    check(image, options)?;
    let plan = arrange(image, strategy, options, Data::Apart)?;
    let strategy = match strategy {
        Strategy::Shift if plan.moves.len() == 1 => Strategy::Align,
        asked => asked,
    };
    Ok(Plan { strategy, ..plan })
}

/// What becomes of writable neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// Each PT_LOAD stays.
    Apart,
    /// They become one PT_LOAD, so that a program header is free.
    Joined,
}

/// As [`layout`] by `Shift` or `Merge`, which has given a plan before, with neighbours of writable data
/// joined, so that program headers become free. Without any, the plan has as few free headers as that of
/// `layout`.
pub(crate) fn layout_with_data_joined(
    image: &Image,
    strategy: Strategy,
    options: &Options,
) -> Result<Plan, Refusal> {
    arrange(image, strategy.max(Strategy::Shift), options, Data::Joined)
}

/// The obstacles to every strategy.
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
    let header = image.file_header();
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

fn arrange(
    image: &Image,
    strategy: Strategy,
    options: &Options,
    data: Data,
) -> Result<Plan, Refusal> {
    let options = &Options {
        extend_tail: options.extend_tail && strategy != Strategy::Align,
        ..*options
    };
    let segments = &image.segments;
    let groups = Group::of(segments, strategy, options);
    let groups = match data {
        Data::Apart => groups,
        Data::Joined => Group::with_data_joined(groups, segments, options.page),
    };
    let mappings = Group::mappings(&groups, segments, options)?;
    let placement = match strategy {
        Strategy::Align => Placement::unmoved(image.file_len, segments),
        Strategy::Shift | Strategy::Merge => {
            let file = OldFile {
                len: image.file_len,
                moved: options.moved,
                appended: image.appended,
            };
            place(segments, &mappings, file, options.page)?
        }
    };
    assemble(image, strategy, options, &mappings, placement)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
