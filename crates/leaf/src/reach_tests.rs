use proptest::prelude::*;

use super::*;

const M: u64 = 1 << 20;
const RX: Perms = Perms {
    read: true,
    write: false,
    exec: true,
};
const R: Perms = Perms {
    read: true,
    write: false,
    exec: false,
};

fn segment(vaddr: u64, offset: u64, size: u64, perms: Perms) -> Segment {
    Segment::new(vaddr, offset, size, size, 4096, perms).unwrap()
}

fn reach_2m(segments: &[Segment], bias: Bias) -> Reach {
    reach(segments, Leaf::K4, Leaf::M2, bias)
}

#[test]
fn cc1_like_layout_loses_its_edges_only() {
    let segments = [
        segment(0x400000, 0, 0x1000, R),
        segment(0x401000, 0x1000, 19 * M, RX),
    ];
    let reach = reach_2m(&segments, Bias::ZERO);
    let text = &reach.segments[0];
    assert_eq!(
        text.windows,
        Span::new(0x600000, 0x401000 + 19 * M - 0x1000 - M)
    );
    assert_eq!(text.offset, 2 * M);
    assert_eq!(reach.reached, 16 * M);
    assert_eq!(
        text.causes,
        [
            Cause::Head {
                bytes: 2 * M - 0x1000
            },
            Cause::Tail { bytes: M + 0x1000 }
        ]
    );
}

#[test]
fn causes_that_add_up_are_told_together() {
    let causes = |size| {
        let segments = [segment(0x3000, 0x2000, size, RX)];
        reach_2m(&segments, Bias::aligned(Leaf::K4)).segments[0]
            .causes
            .clone()
    };
    let place = [
        Cause::Incongruent { by: 0x1000 },
        Cause::Alignment { align: Leaf::K4 },
    ];
    assert_eq!(causes(8 * M), place);
    assert_eq!(causes(M), [Cause::Small]);
}

#[test]
fn a_window_may_begin_in_a_neighbour_of_the_same_mapping() {
    let segments = [segment(0, 0, 3 * M, RX), segment(3 * M, 3 * M, 3 * M, RX)];
    assert_eq!(vmas(&segments, Leaf::K4).len(), 1);
    assert_eq!(reach_2m(&segments, Bias::ZERO).reached, 6 * M);
    let apart = [segment(0, 0, 3 * M, R), segment(3 * M, 3 * M, 3 * M, RX)];
    assert_eq!(reach_2m(&apart, Bias::ZERO).reached, 2 * M);
}

#[test]
fn a_page_that_two_segments_share_is_the_later_ones() {
    let base = 4 * M;
    let segments = [
        segment(base, 0, 2 * M + 0x1000, R),
        segment(base + 2 * M + 0x1000, 2 * M + 0x1000, 6 * M, RX),
        segment(base + 8 * M + 0x1000, 8 * M + 0x1000, 3 * M, R),
    ];
    let found = vmas(&segments, Leaf::K16);
    let ends: Vec<Span> = found.iter().map(|vma| vma.addresses).collect();
    let text = Span::new(base + 2 * M, base + 8 * M);
    assert_eq!(ends[0], Span::new(base, text.start));
    assert_eq!(ends[1], text);
    let reach = reach(&segments, Leaf::K16, Leaf::M2, Bias::ZERO);
    assert_eq!(reach.segments[0].windows, text);
    assert_eq!(reach.reached, text.len() - 0x1000);
    assert_eq!(reach.segments[0].causes, [Cause::Tail { bytes: 0x1000 }]);
}

#[test]
fn writable_text_is_not_reached() {
    let rwx = Perms {
        read: true,
        write: true,
        exec: true,
    };
    let reach = reach_2m(&[segment(0, 0, 4 * M, rwx)], Bias::ZERO);
    assert_eq!(reach.segments[0].causes, [Cause::Writable]);
}

#[test]
fn a_residue_moves_the_windows() {
    let bias = Bias {
        align: Leaf::M2,
        residue: 2 * M - 0x2000,
    };
    let reach = reach_2m(&[segment(0x3000, 0x1000, 8 * M, RX)], bias);
    assert_eq!(reach.segments[0].windows.start, 2 * M + 0x2000);
    assert_eq!(reach.segments[0].offset, 2 * M);
}

#[test]
fn warming_covers_read_only_data_and_joins_neighbours() {
    let segments = [segment(0, 0, 4 * M, R), segment(4 * M, 4 * M, 5 * M, RX)];
    let ranges = windows_in_file(&segments, Leaf::K4, Leaf::M2, Bias::aligned(Leaf::K4));
    assert_eq!(ranges, [Span::new(0, 8 * M)]);
    let incongruent = [segment(0x1000, 0, 4 * M, RX)];
    assert_eq!(
        windows_in_file(&incongruent, Leaf::K4, Leaf::M2, Bias::ZERO),
        []
    );
}

proptest! {
    /// Compares with the definition: a text page counts if its window lies inside the mapping.
    #[test]
    fn agrees_with_counting_pages(
        vaddr in 0u64..2048, delta in 0u64..1024, pages in 1u64..4096, shift in 13u32..22,
    ) {
        let leaf = Leaf::from_bytes(1 << shift).unwrap();
        let segment = segment(vaddr << 12, (vaddr + delta) << 12, pages << 12, RX);
        let got = reach(&[segment], Leaf::K4, leaf, Bias::ZERO);
        let window = leaf.bytes() >> 12;
        let counted = if delta % window != 0 { 0 } else {
            (vaddr..vaddr + pages)
                .filter(|page| {
                    let start = page - page % window;
                    start >= vaddr && start + window <= vaddr + pages
                })
                .count() as u64
        };
        prop_assert_eq!(got.reached >> 12, counted);
        prop_assert_eq!(got.text, pages << 12);
        prop_assert!(got.reached == got.text || !got.segments[0].causes.is_empty());
    }
}
