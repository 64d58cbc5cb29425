use proptest::prelude::*;

use super::*;
use crate::segment::Perms;

const LEAF: u64 = 2 << 20;
const HEADER: EarlyRead = EarlyRead {
    what: EarlyBytes::ElfHeader,
    file: Span {
        start: 0,
        end: 0x400,
    },
};

fn segment(perms: &str, vaddr: u64, offset: u64, size: u64) -> Segment {
    let perms = Perms {
        read: perms.contains('r'),
        write: perms.contains('w'),
        exec: perms.contains('x'),
    };
    Segment::new(vaddr, offset, size, size, LEAF, perms).unwrap()
}

fn start(segments: &[Segment], asker: Asker) -> ColdStart {
    cold_start(
        asker,
        &Start {
            kind: ObjectKind::Pie,
            segments,
            early: &[HEADER],
            page: Leaf::K4,
            leaf: Leaf::M2,
            bias: Bias::aligned(Leaf::M2),
            readahead: 128 << 10,
        },
    )
}

fn counts(found: ColdStart) -> [u64; 4] {
    [found.windows, found.asked, found.spoiled, found.huge]
}

#[test]
fn text_behind_read_only_data_is_not_asked_for() {
    let segments = [
        segment("r", 0, 0, 0x1000),
        segment("rx", 0x1000, 0x1000, 5 * LEAF),
    ];
    assert_eq!(counts(start(&segments, Asker::GlibcTunable)), [4, 0, 0, 0]);
    // kernel/order looks at windows, not at the address of the segment.
    assert_eq!(counts(start(&segments, Asker::ExecOrder)), [4, 4, 0, 4]);
}

#[test]
fn text_that_is_cut_at_its_first_window_is() {
    let segments = [
        segment("r", 0, 0, 0x1000),
        segment("rx", 0x1000, 0x1000, LEAF - 0x1000),
        segment("rx", LEAF, LEAF, 4 * LEAF + 0x1000),
    ];
    assert_eq!(counts(start(&segments, Asker::GlibcTunable)), [4, 4, 0, 4]);
}

#[test]
fn the_header_spoils_the_window_that_holds_it() {
    let segments = [segment("rx", 0, 0, 5 * LEAF)];
    assert_eq!(counts(start(&segments, Asker::GlibcTunable)), [5, 5, 1, 4]);
    assert_eq!(counts(start(&segments, Asker::ExecOrder)), [5, 5, 1, 4]);
}

#[test]
fn each_window_has_an_outcome_and_its_cause() {
    let segments = [
        segment("rx", 0, 0, 2 * LEAF + 0x1000),
        segment("rx", 2 * LEAF + 0x1000, 2 * LEAF + 0x1000, 3 * LEAF),
    ];
    let found = start(&segments, Asker::GlibcTunable).runs;
    let run = |first: u64, end: u64, outcome| WindowRun {
        addresses: Span::new(first * LEAF, end * LEAF),
        outcome,
    };
    let by = EarlyBytes::ElfHeader;
    let wanted = [
        run(0, 1, WindowOutcome::Spoiled { by }),
        run(1, 2, WindowOutcome::Huge),
        run(2, 5, WindowOutcome::NotAsked),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn long_readahead_of_the_header_spoils_windows_behind_it() {
    let segments = [segment("rx", 0, 0, 5 * LEAF)];
    let found = cold_start(
        Asker::GlibcTunable,
        &Start {
            kind: ObjectKind::Pie,
            segments: &segments,
            early: &[HEADER],
            page: Leaf::K4,
            leaf: Leaf::M2,
            bias: Bias::aligned(Leaf::M2),
            readahead: 2560 << 10,
        },
    );
    assert_eq!(counts(found), [5, 5, 2, 3]);
}

#[test]
fn thp_always_asks_for_nothing_by_itself() {
    let segments = [segment("rx", LEAF, LEAF, 5 * LEAF)];
    for asker in [Asker::ThpAlways, Asker::PmdAlignSeries] {
        assert_eq!(counts(start(&segments, asker)), [5, 0, 0, 0], "{asker}");
    }
}

#[test]
fn a_program_at_an_unaligned_address_asks_in_vain() {
    let segments = [segment("rx", LEAF, LEAF, 5 * LEAF)];
    let at = |kind| {
        cold_start(
            Asker::GlibcTunable,
            &Start {
                kind,
                segments: &segments,
                early: &[HEADER],
                page: Leaf::K4,
                leaf: Leaf::M2,
                bias: Bias::aligned(Leaf::K4),
                readahead: 0,
            },
        )
    };
    assert_eq!(counts(at(ObjectKind::Pie)), [5, 5, 0, 0]);
    // The dynamic loader aligns libraries that it asks for.
    assert_eq!(counts(at(ObjectKind::SharedObject)), [5, 5, 0, 5]);
}

#[test]
fn each_rule_is_that_of_its_asker() {
    for asker in Asker::ALL {
        assert_eq!(asker.rule().asker, asker);
    }
}

/// Segments that ascend in memory and file, each congruent or not.
fn images() -> impl Strategy<Value = Vec<Segment>> {
    let one = (0u64..5, 0u64..4096, 1u64..6000, 0usize..4, any::<bool>());
    proptest::collection::vec(one, 1..5).prop_map(|parts| {
        let (mut vaddr, mut offset) = (0u64, 0u64);
        let mut segments = Vec::new();
        for (skip, pages, size, perms, congruent) in parts {
            vaddr = (vaddr + skip * LEAF / 2).next_multiple_of(4096);
            offset = if congruent {
                vaddr.max(offset.next_multiple_of(LEAF) + vaddr % LEAF)
            } else {
                offset.next_multiple_of(4096)
            };
            let len = (size << 12) + pages;
            let perms = ["r", "rx", "rw", "rwx"][perms];
            segments.push(segment(perms, vaddr, offset, len));
            vaddr += len.next_multiple_of(4096);
            offset += len;
        }
        segments
    })
}

proptest! {
    #[test]
    fn huge_windows_are_asked_for_and_not_spoiled(segments in images(), ra in 0u64..4 << 20) {
        for asker in Asker::ALL {
            for kind in [ObjectKind::Pie, ObjectKind::SharedObject] {
                let found = cold_start(asker, &Start {
                    kind,
                    segments: &segments,
                    early: &[HEADER],
                    page: Leaf::K4,
                    leaf: Leaf::M2,
                    bias: Bias::aligned(Leaf::M2),
                    readahead: ra,
                });
                for pair in found.runs.windows(2) {
                    let [one, next] = [pair[0], pair[1]];
                    prop_assert!(one.addresses.end <= next.addresses.start);
                    let follows = one.addresses.end == next.addresses.start;
                    prop_assert!(!follows || one.outcome != next.outcome);
                }
                prop_assert!(found.asked <= found.windows);
                prop_assert!(found.huge + found.spoiled <= found.asked);
            }
        }
    }

    /// What glibc asks for, the kernel of this repository asks for too.
    #[test]
    fn the_kernel_asks_for_at_least_as_much(segments in images()) {
        let [glibc, order] = [Asker::GlibcTunable, Asker::ExecOrder].map(|asker| start(&segments, asker));
        prop_assert!(glibc.huge <= order.huge, "{glibc:?} {order:?}");
    }

    /// Early reads only take.
    #[test]
    fn without_early_reads_nothing_is_spoiled(segments in images()) {
        let clean = cold_start(Asker::GlibcTunable, &Start {
            kind: ObjectKind::Pie,
            segments: &segments,
            early: &[],
            page: Leaf::K4,
            leaf: Leaf::M2,
            bias: Bias::aligned(Leaf::M2),
            readahead: 128 << 10,
        });
        prop_assert_eq!(clean.spoiled, 0);
        prop_assert!(clean.huge >= start(&segments, Asker::GlibcTunable).huge);
    }
}
