//! What the headers of a program say about its text; pure.

use hugetext_elf::{Image, Linker, MovedText, Options, Plan, ReadAt, Strategy, plan};
use hugetext_leaf::{
    Bias, Cause, Filesystem, Geometry, Kernel, Leaf, LeafKind, Loader, Reach, Segment, Version,
    large_folios, reach,
};

use crate::build_id::build_id;

/// Where a program is to run, as far as its reach depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground {
    /// The kernel.
    pub(crate) kernel: Kernel,
    /// The filesystem whose page cache holds the file.
    pub(crate) filesystem: Filesystem,
    /// The leaves of the machine; those usual for the program's architecture if they are not known.
    pub(crate) geometry: Option<Geometry>,
    /// Whether the dynamic loader places shared objects by their alignment.
    pub(crate) dl_honours_align: bool,
}

/// A program, independent of its name and image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// The GNU build id in hexadecimal; `None` if it has none.
    pub(crate) build_id: Option<String>,
    /// The linker, if the file names it.
    pub(crate) linker: Option<String>,
    /// Its segments of text, each for each leaf.
    pub(crate) segments: Vec<SegmentFacts>,
}

/// A segment of text and a leaf. All sizes are bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SegmentFacts {
    /// The number of its PT_LOAD, from 0.
    pub(crate) segment: i32,
    /// The size of the leaf.
    pub(crate) leaf: u64,
    /// Its range of the file.
    pub(crate) file: hugetext_leaf::Span,
    /// Text.
    pub(crate) text: u64,
    /// What the layout allows: now, after a fix, after a merge.
    pub(crate) layout: Stages,
    /// Whether filesystem and kernel let the leaf be used.
    pub(crate) is_able: bool,
    /// Why not all, by the name of [`Cause`] in JSON.
    pub(crate) cause: Option<String>,
    /// The first kernel that could, if the kernel is the cause.
    pub(crate) needs_kernel: Option<Version>,
}

/// Bytes of text within reach of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stages {
    /// As the file is.
    pub(crate) now: u64,
    /// After `hugetext fix`.
    pub(crate) fix: u64,
    /// After `hugetext fix --strategy merge`.
    pub(crate) merge: u64,
}

impl Facts {
    /// What `image`, read from `source`, is worth on `ground`.
    pub(crate) fn of(image: &Image, source: &(impl ReadAt + ?Sized), ground: &Ground) -> Facts {
        let linker = Linker::recognise(source, image).ok().flatten();
        let geometry = ground.geometry.or(image.machine.default_geometry());
        let leaves = geometry.into_iter().flat_map(|geometry| {
            let leaves: Vec<_> = geometry.leaves().collect();
            leaves.into_iter().map(move |leaf| (geometry, leaf))
        });
        let segments =
            leaves.flat_map(|(geometry, leaf)| for_leaf(image, source, &geometry, leaf, ground));
        Facts {
            build_id: build_id(image, source),
            linker: linker.map(|linker| linker.to_string()),
            segments: segments.collect(),
        }
    }
}

fn for_leaf(
    image: &Image,
    source: &(impl ReadAt + ?Sized),
    geometry: &Geometry,
    (kind, leaf): (LeafKind, Leaf),
    ground: &Ground,
) -> Vec<SegmentFacts> {
    let loader = Loader {
        kernel: ground.kernel,
        class: image.encoding.class,
        filesystem: ground.filesystem,
        dl_honours_align: ground.dl_honours_align,
    };
    let bias = |segments: &[Segment]| loader.bias(image.kind, segments, geometry);
    let now = reach(&image.segments, geometry.page, leaf, bias(&image.segments));
    let options = Options {
        leaf,
        page: geometry.page,
        extend_tail: false,
        moved: MovedText::BehindOld,
    };
    let planned = |strategies: &[Strategy]| -> Vec<(Plan, Bias)> {
        let plans = strategies
            .iter()
            .filter_map(|strategy| plan(source, image, *strategy, &options).ok());
        plans
            .map(|plan| {
                let bias = bias(&plan.segments);
                (plan, bias)
            })
            .collect()
    };
    let fixes = planned(&[Strategy::Align, Strategy::Shift]);
    let merges = planned(&[Strategy::Merge]);
    let ability = large_folios(ground.filesystem, ground.kernel, kind, leaf);
    let texts = image
        .segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.is_text());
    let facts = texts.filter_map(|(index, segment)| {
        let own = now.segments.iter().find(|reach| reach.segment == index)?;
        let after = |plans: &[(Plan, Bias)], least: u64| {
            let reached = plans
                .iter()
                .map(|(plan, bias)| after(plan, *bias, geometry.page, segment));
            reached.fold(least, u64::max)
        };
        let fix = after(&fixes, own.reached);
        let shape = own
            .causes
            .iter()
            .find(|cause| !matches!(cause, Cause::Head { .. } | Cause::Tail { .. }));
        let cause = ability.doubt().or(shape.copied());
        Some(SegmentFacts {
            segment: i32::try_from(index).unwrap_or(i32::MAX),
            leaf: leaf.bytes(),
            file: segment.file(),
            text: segment.filesz,
            layout: Stages {
                now: own.reached,
                fix,
                merge: after(&merges, fix),
            },
            is_able: ability.refusal().is_none(),
            cause: cause.as_ref().and_then(name),
            needs_kernel: match ability.doubt() {
                Some(Cause::Kernel { needs }) => Some(needs),
                _ => None,
            },
        })
    });
    facts.collect()
}

/// Bytes of `segment` in windows after a plan: its text may lie in a mapping with others.
fn after(plan: &Plan, bias: Bias, page: Leaf, segment: &Segment) -> u64 {
    let reached: Reach = reach(&plan.segments, page, plan.leaf, bias);
    let mut windows: Vec<_> = reached.segments.iter().map(|found| found.windows).collect();
    windows.dedup();
    let text = segment.file_backed();
    windows
        .iter()
        .map(|windows| text.intersect(windows).len())
        .sum()
}

/// The name of a cause, as in the documents of `hugetext check`.
fn name(cause: &Cause) -> Option<String> {
    let json = serde_json::to_value(cause).ok()?;
    json.get("cause")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_about_linkers_names_the_option_that_check_names() {
        let sql = include_str!("../../queries/linkers.sql");
        let [lld, mold, wild] = ["LLD 19", "mold 2", "Wild 0.6"].map(str::to_owned);
        let others = [Linker::Lld(lld), Linker::Mold(mold), Linker::Wild(wild)];
        for linker in others.iter().chain(&[Linker::Gnu, Linker::Gold]) {
            let option = linker.options(Leaf::M2).unwrap();
            assert!(sql.contains(&format!("'{option}'")), "{option}");
        }
        assert_eq!(Linker::Go.options(Leaf::M2), None);
        // Spark reads two quotes as none, so one letter is left open.
        let name = Linker::Go.to_string().replace('\'', "_");
        assert!(sql.contains(&format!("'{name}'")), "{name}");
    }
}
