use proptest::prelude::*;

use super::*;
use crate::kernel::Version;
use crate::remap::Obstacle;

const FILE: FileId = FileId { dev: 1, ino: 7 };
const M: u64 = 1 << 20;

fn vma(start: u64, end: u64, offset: u64, perms: &str) -> ProcessVma {
    ProcessVma {
        addresses: Span::new(start, end),
        offset,
        perms: Perms {
            read: perms.contains('r'),
            write: perms.contains('w'),
            exec: perms.contains('x'),
        },
        file: Some(FILE),
        obstacle: None,
        bti: false,
        huge: Vec::new(),
        changed: Vec::new(),
    }
}

fn by(backend: Backend) -> PromotionPolicy {
    PromotionPolicy {
        leaf: Leaf::M2,
        backend,
        completion: Completion::Unused,
    }
}

fn remap(vmas: &[ProcessVma]) -> Promotion {
    promotion(vmas, by(Backend::RemapOnly), |_| None)
}

fn merge(vmas: &[ProcessVma]) -> Promotion {
    let policy = PromotionPolicy {
        completion: Completion::ReadOnlyData,
        ..by(Backend::RemapOnly)
    };
    promotion(vmas, policy, |_| None)
}

#[test]
fn whole_windows_are_taken_and_shared_ones_left() {
    let vmas = [
        vma(20 * M, 21 * M, 0, "r"),
        vma(21 * M, 27 * M, M, "rx"),
        vma(27 * M, 28 * M, 7 * M, "rw"),
    ];
    let plan = remap(&vmas);
    assert_eq!(plan.runs.len(), 1);
    assert_eq!(plan.runs[0].windows, Span::new(22 * M, 26 * M));
    assert_eq!(plan.runs[0].offset, 2 * M);
    assert_eq!(plan.left.len(), 2);
    assert!(plan.left.iter().all(|left| left.reason == Reason::Partial));
}

/// libdwfl would find other names behind a copy.
#[test]
fn text_behind_a_copy_comes_from_the_copy() {
    let text = vma(21 * M, 27 * M, M, "rx");
    let of = |pad: &[ProcessVma]| {
        let vmas = [&[vma(20 * M, 21 * M, 0, "r"), text.clone()], pad].concat();
        remap(&vmas)
            .runs
            .pop()
            .map(|run| (run.rest, run.mapped(), run.shown()))
    };
    let shared = vma(27 * M, 28 * M, 7 * M, "rw");
    let all = Span::new(22 * M, 27 * M);
    assert_eq!(of(&[shared]), Some((Span::new(26 * M, 27 * M), all, all)));
    let none = Span::new(28 * M, 28 * M);
    assert_eq!(of(&[]), Some((none, Span::new(22 * M, 28 * M), all)));

    // The next file's text is its own.
    let mut next = vma(24 * M, 25 * M, 0, "rx");
    next.file = Some(FileId { dev: 1, ino: 8 });
    let plan = remap(&[vma(20 * M, 24 * M, 0, "rx"), next]);
    assert!(plan.runs.iter().all(|run| run.rest.is_empty()));

    let mut changed = vma(20 * M, 25 * M, M, "rx");
    changed.changed = vec![Span::new(24 * M, 24 * M + 4096)];
    assert!(remap(&[changed]).runs[0].rest.is_empty());
}

/// madvise(2) may have cut the mapping there.
#[test]
fn the_rest_may_be_a_mapping_of_its_own() {
    let cut = |offset| {
        let data = vma(27 * M, 28 * M, 5 * M, "rw");
        let text = [
            vma(22 * M, 26 * M, 0, "rx"),
            vma(26 * M, 27 * M, offset, "rx"),
        ];
        remap(&[&text[..], &[data]].concat()).runs[0].rest.len()
    };
    assert_eq!((cut(4 * M), cut(5 * M)), (M, 0));
}

#[test]
fn windows_that_are_huge_without_a_copy_lie_behind_none() {
    let of = |huge: &[(u64, u64)], backend| {
        let mut text = vma(21 * M, 33 * M, M, "rx");
        text.huge = huge
            .iter()
            .map(|(start, end)| Span::new(start * M, end * M))
            .collect();
        let plan = promotion(&[text], by(backend), |_| None);
        let runs = plan
            .runs
            .iter()
            .map(|run| (run.windows.start / M, run.windows.end / M));
        (runs.collect::<Vec<_>>(), plan.left)
    };
    // The head could be copied, and more windows are huge behind it.
    let (runs, left) = of(&[(22, 28)], Backend::RemapOnly);
    assert_eq!(runs, [(28, 34)]);
    assert_eq!(left[0].reason, Reason::BeforeHuge);
    // One that is huge behind many that are not is copied with them.
    assert_eq!(of(&[(26, 28)], Backend::RemapOnly).0, [(20, 34)]);
    // What collapses stays, and so does the head.
    let (runs, left) = of(&[], Backend::Both);
    assert_eq!(runs, [(22, 32), (32, 34)]);
    assert_eq!(left[0].reason, Reason::BeforeHuge);
}

#[test]
fn a_little_text_is_not_worth_a_window() {
    let plan = remap(&[vma(20 * M, 20 * M + (100 << 10), 0, "rx")]);
    assert_eq!(plan.left[0].reason, Reason::Small);
}

#[test]
fn a_mapping_smaller_than_a_window_is_small_whatever_lies_beside_it() {
    let vmas = [vma(20 * M, 21 * M, 0, "rx"), vma(21 * M, 22 * M, M, "rw")];
    for backend in [Backend::RemapOnly, Backend::CollapseOnly] {
        let plan = promotion(&vmas, by(backend), |_| None);
        assert_eq!(plan.left[0].reason, Reason::Small);
    }
}

#[test]
fn a_changed_page_keeps_its_window() {
    let mut text = vma(20 * M, 26 * M, 0, "rx");
    text.changed = vec![Span::new(23 * M, 23 * M + 4096)];
    let plan = remap(&[text.clone()]);
    assert_eq!(plan.runs.len(), 2);
    assert_eq!(plan.left[0].text, Span::new(22 * M, 24 * M));
    assert_eq!(plan.left[0].reason, Reason::Changed);
    // A congruent layout would not help it.
    text.offset = 4096;
    let plan = promotion(&[text], by(Backend::CollapseOnly), |_| None);
    let reasons: Vec<_> = plan.left.iter().map(|left| &left.reason).collect();
    let incongruent = &Reason::Incongruent;
    assert_eq!(reasons, [incongruent, &Reason::Changed, incongruent]);
}

#[test]
fn collapse_is_for_congruent_windows() {
    let both = |offset| {
        let text = [vma(20 * M, 24 * M, offset, "rx")];
        promotion(&text, by(Backend::Both), |_| None).runs[0].method
    };
    assert_eq!(both(2 * M), Method::Collapse);
    assert_eq!(both(4096), Method::Remap);
    let text = [vma(20 * M, 24 * M, 4096, "rx")];
    let plan = promotion(&text, by(Backend::CollapseOnly), |_| None);
    assert_eq!(plan.left[0].reason, Reason::Incongruent);
}

#[test]
fn what_the_kernel_does_not_collapse_is_remapped_or_left() {
    let cause = Cause::Kernel {
        needs: Version::new(7, 2),
    };
    let text = [vma(20 * M, 24 * M, 2 * M, "rx")];
    let plan = |backend| promotion(&text, by(backend), |_| Some(cause));
    assert_eq!(plan(Backend::Both), remap(&text));
    let left = plan(Backend::CollapseOnly);
    assert_eq!(left.runs, []);
    assert_eq!(left.left[0].reason, Reason::Uncollapsible(cause));
}

#[test]
fn sealed_and_writable_text_stays() {
    let mut sealed = vma(20 * M, 24 * M, 0, "rx");
    sealed.obstacle = Some(Obstacle::Sealed);
    let plan = remap(&[sealed, vma(40 * M, 44 * M, 0, "rwx")]);
    assert_eq!(plan.runs, []);
    assert_eq!(plan.left[0].reason, Reason::Mapping(Obstacle::Sealed));
    assert_eq!(plan.left[1].reason, Reason::Writable);
}

#[test]
fn read_only_data_completes_windows_if_it_may() {
    // As ld lays a program out: header, text, read-only data, and what is written to.
    let vmas = [
        vma(20 * M + 4096, 21 * M, 0, "r"),
        vma(21 * M, 23 * M, M - 4096, "rx"),
        vma(23 * M, 25 * M, 3 * M - 4096, "r"),
        vma(25 * M, 26 * M, 5 * M, "rw"),
    ];
    assert_eq!(remap(&vmas).runs, []);
    let plan = merge(&vmas);
    assert_eq!(plan.left, []);
    assert_eq!(plan.runs.len(), 1);
    let run = plan.runs[0];
    assert_eq!(run.windows, Span::new(20 * M, 24 * M));
    assert_eq!(run.content, Span::new(20 * M + 4096, 24 * M));
    assert_eq!(run.text, Span::new(21 * M, 23 * M));
    assert_eq!((run.offset, run.data()), (0, 2 * M - 4096));
    assert_eq!((run.head, run.tail), (Some(Pad::Free), None));
}

#[test]
fn only_unchanged_data_of_the_same_file_at_its_place_joins() {
    let text = vma(20 * M, 23 * M, 0, "rx");
    let data = vma(23 * M, 24 * M, 3 * M, "r");
    let run = |data| merge(&[text.clone(), data]).runs[0].windows;
    assert_eq!(run(data.clone()), Span::new(20 * M, 24 * M));
    let mut others = vec![data.clone(); 5];
    others[0].changed = vec![Span::new(23 * M, 23 * M + 4096)];
    others[1].file = Some(FileId { dev: 1, ino: 8 });
    others[2].offset = 4 * M;
    others[3].perms.write = true;
    others[4].obstacle = Some(Obstacle::Sealed);
    for other in others {
        assert_eq!(run(other.clone()), Span::new(20 * M, 22 * M), "{other:?}");
    }
}

proptest! {
    /// Every byte of text is promoted or left, once; a run never covers foreign memory.
    #[test]
    fn text_is_accounted_for(
        sizes in prop::collection::vec((1u64..1500, 0u64..3, 0usize..4), 1..12),
        offset in 0u64..512,
    ) {
        let mut at = 64 * M;
        let mut vmas = Vec::new();
        for (pages, gap, kind) in sizes {
            let start = at + gap * 0x10_0000;
            let end = start + pages * 4096;
            let perms = ["rx", "r", "", "rx"][kind];
            vmas.push(vma(start, end, offset * 4096 + (start - 64 * M), perms));
            at = end;
        }
        for completion in [Completion::Unused, Completion::ReadOnlyData] {
            let policy = PromotionPolicy { completion, ..by(Backend::Both) };
            let plan = promotion(&vmas, policy, |_| None);
            let text: u64 = vmas.iter().filter(|v| v.perms.exec).map(|v| v.addresses.len()).sum();
            let left: u64 = plan.left.iter().map(|left| left.text.len()).sum();
            prop_assert_eq!(plan.promoted() + left, text);
            for run in &plan.runs {
                prop_assert!(Leaf::M2.is_aligned(run.windows.start | run.windows.end));
                prop_assert!(completion == Completion::ReadOnlyData || run.data() == 0);
                prop_assert!(run.rest.start == run.windows.end && run.rest.len() < Leaf::M2.bytes());
                let texts = vmas.iter().filter(|v| v.perms.exec);
                let of_text = texts.map(|v| v.addresses.intersect(&run.rest).len()).sum::<u64>();
                prop_assert_eq!(of_text, run.rest.len());
                for other in vmas.iter().filter(|v| v.addresses.overlaps(&run.windows)) {
                    let is_text = other.perms.exec && other.addresses.overlaps(&run.text);
                    let is_data = !other.perms.exec && other.addresses.overlaps(&run.content);
                    prop_assert!(is_text || is_data || other.perms == Perms::default());
                    prop_assert_eq!(is_data, is_data && other.perms.read && run.data() > 0);
                }
            }
        }
    }
}
