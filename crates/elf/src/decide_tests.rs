//! Layouts of linkers, reduced to their numbers.

use hugetext_leaf::{Bias, Cause, Class, Perms, reach};

use super::*;
use crate::arch::Machine;
use crate::encoding::{ByteOrder, Encoding};
use crate::headers::Table;
use crate::plan::Warning;
use crate::sections::Sections;

const R: Perms = perms(false, false);
const RX: Perms = perms(false, true);
const RW: Perms = perms(true, false);
const M: u64 = 1 << 20;

const fn perms(write: bool, exec: bool) -> Perms {
    Perms {
        read: true,
        write,
        exec,
    }
}

/// (p_vaddr, p_offset, p_filesz, p_align, p_flags)
type Load = (u64, u64, u64, u64, Perms);

fn image(kind: ObjectKind, loads: &[Load]) -> Image {
    let end = loads.iter().map(|load| load.1 + load.2).max().unwrap();
    let segments: Vec<Segment> = loads
        .iter()
        .map(|(vaddr, offset, size, align, perms)| {
            Segment::new(*vaddr, *offset, *size, *size, *align, *perms).unwrap()
        })
        .collect();
    let header = |s: &Segment| ProgramHeader {
        p_type: elf::PT_LOAD.0,
        flags: 4 | u32::from(s.perms.write) << 1 | u32::from(s.perms.exec),
        offset: s.offset,
        vaddr: s.vaddr,
        paddr: s.vaddr,
        filesz: s.filesz,
        memsz: s.memsz,
        align: s.align,
    };
    Image {
        kind,
        encoding: Encoding {
            class: Class::Bits64,
            order: ByteOrder::LittleEndian,
        },
        machine: Machine::X86_64,
        entry: 0,
        file_len: end + 0x100,
        headers: segments.iter().map(header).collect(),
        segments,
        program_table: Table {
            offset: 64,
            count: loads.len() as u64,
            entry_size: 56,
        },
        section_table: Table {
            offset: end,
            count: 4,
            entry_size: 64,
        },
        sections: Sections::default(),
        section_names: 3,
        dynamic: Vec::new(),
        appended: 0,
    }
}

/// The layout of lld: file offsets are packed, and each segment adds a page to the addresses.
fn lld() -> Image {
    image(
        ObjectKind::SharedObject,
        &[
            (0, 0, 3 * M + 0x340, 0x1000, R),
            (3 * M + 0x1340, 3 * M + 0x340, 9 * M, 0x1000, RX),
            (12 * M + 0x2340, 12 * M + 0x340, 0x8000, 0x1000, RW),
        ],
    )
}

const OPTIONS: Options = Options {
    leaf: Leaf::M2,
    page: Leaf::K4,
    extend_tail: false,
    moved: MovedText::Nearest,
};

#[test]
fn shift_moves_text_by_the_least_amount_and_the_rest_along() {
    let image = lld();
    let plan = layout(&image, Strategy::Shift, &OPTIONS).unwrap();
    assert_eq!(plan.shifts, [0, 0x1000, 0x1000]);
    assert_eq!(plan.cost.apparent, 0x1000);
    assert_eq!(plan.file_len, image.file_len + 0x1000);
    assert_eq!(plan.section_table, image.section_table.offset + 0x1000);
    assert_eq!(plan.program_table, 64);
    assert_eq!(plan.reached(&image, Leaf::K4), 8 * M);
    assert_eq!(plan.cost.aslr_bits, 9);
}

#[test]
fn only_text_that_holds_a_window_is_aligned() {
    let small = (5 * M + 0x3000, 4 * M + 0x2000, 0x9000, 0x1000, RX);
    let big = (8 * M, 5 * M, 4 * M, 0x1000, RX);
    let image = image(ObjectKind::Pie, &[(0, 0, 0x4000, 0x1000, R), small, big]);
    let plan = layout(&image, Strategy::Shift, &OPTIONS).unwrap();
    assert_eq!(plan.shifts, [0, 0, M]);
    assert_eq!(
        plan.segments.iter().map(|s| s.align).collect::<Vec<_>>(),
        [0x1000, 0x1000, 2 * M]
    );
}

#[test]
fn congruent_text_needs_a_header_edit_only_and_then_nothing() {
    let loads = [
        (0, 0, 0x3000, 0x1000, R),
        (0x3000, 0x3000, 9 * M, 0x1000, RX),
    ];
    let mut image = image(ObjectKind::Pie, &loads);
    let first = layout(&image, Strategy::Align, &OPTIONS).unwrap();
    assert_eq!(first, layout(&image, Strategy::Shift, &OPTIONS).unwrap());
    assert_eq!((first.strategy, first.cost.apparent), (Strategy::Align, 0));
    assert!(!first.is_noop(&image));
    image.headers = first.headers;
    image.segments = first.segments;
    assert!(
        layout(&image, Strategy::Shift, &OPTIONS)
            .unwrap()
            .is_noop(&image)
    );
}

#[test]
fn congruent_text_at_fixed_addresses_needs_nothing() {
    let loads = [
        (4 * M, 0, 0x3000, 0x1000, R),
        (4 * M + 0x3000, 0x3000, 9 * M, 0x1000, RX),
    ];
    let image = image(ObjectKind::Executable, &loads);
    for strategy in [Strategy::Align, Strategy::Shift] {
        let plan = layout(&image, strategy, &OPTIONS).unwrap();
        assert!(plan.is_noop(&image), "{plan:?}");
        assert_eq!(plan.reached(&image, Leaf::K4), 6 * M);
    }
    assert!(
        !layout(&image, Strategy::Merge, &OPTIONS)
            .unwrap()
            .is_noop(&image)
    );
}

#[test]
fn merge_joins_read_only_neighbours_and_says_what_becomes_executable() {
    let image = lld();
    let plan = layout(&image, Strategy::Merge, &OPTIONS).unwrap();
    let [text, data] = plan.segments.as_slice() else {
        panic!("{:?}", plan.segments);
    };
    assert_eq!((text.vaddr, text.offset), (0, 0));
    assert_eq!(text.filesz, 12 * M + 0x1340);
    assert_eq!(text.perms, RX);
    assert_eq!(data.perms, RW);
    // The window that begins in read-only data also counts.
    assert_eq!(plan.reached(&image, Leaf::K4), 9 * M - 0x1340);
    assert_eq!(
        plan.warnings,
        [Warning::BecomesExecutable {
            addresses: Span::new(0, 3 * M + 0x340)
        }]
    );
}

#[test]
fn a_tail_is_extended_only_into_free_addresses() {
    let loads = |data| {
        [
            (0, 0, 0x1000, 0x1000, R),
            (2 * M, 0x1000, 3 * M, 0x1000, RX),
            (data, 3 * M + 0x1000, 0x1000, 0x1000, RW),
        ]
    };
    let options = Options {
        extend_tail: true,
        ..OPTIONS
    };
    let free = image(ObjectKind::Pie, &loads(6 * M));
    let extended = layout(&free, Strategy::Shift, &options).unwrap();
    assert_eq!(extended.reached(&free, Leaf::K4), 3 * M);
    assert_eq!(extended.cost.memory, M);
    let text = extended.segments[1].file();
    let data = extended.segments[2].file();
    assert!(text.end <= data.start && data.end <= extended.file_len);
    let taken = image(ObjectKind::Pie, &loads(5 * M));
    assert_eq!(
        layout(&taken, Strategy::Shift, &options)
            .unwrap()
            .reached(&taken, Leaf::K4),
        2 * M
    );
}

#[test]
fn other_segments_keep_the_congruence_their_p_align_asks_for() {
    // aarch64 with 64K pages: text moves by 64K multiples because data must stay congruent.
    let image = image(
        ObjectKind::Pie,
        &[
            (0, 0, 0x4400, 0x10000, R),
            (0x14400, 0x4400, 5 * M, 0x10000, RX),
            (5 * M + 0x24400, 5 * M + 0x4400, 0x1000, 0x10000, RW),
        ],
    );
    let plan = layout(&image, Strategy::Shift, &OPTIONS).unwrap();
    for segment in &plan.segments {
        assert_eq!((segment.vaddr - segment.offset) % segment.align, 0);
    }
    assert_eq!(plan.shifts, [0, 0x10000, 0x10000]);
}

#[test]
fn the_leaf_follows_the_text() {
    let of = |size| {
        let loads = [
            (0, 0, 0x1000, 0x1000, R),
            (0x1000, 0x1000, size, 0x1000, RX),
        ];
        let image = image(ObjectKind::Pie, &loads);
        Options::for_image(&image, &Geometry::ARM64_4K, Strategy::Shift).leaf
    };
    assert_eq!(of(200 << 10), Leaf::K64);
    assert_eq!(of(2 * M), Leaf::K64);
    assert_eq!(of(4 * M), Leaf::M2);
}

#[test]
fn refusals_name_the_reason() {
    let refusal = |image: &Image, strategy| layout(image, strategy, &OPTIONS).unwrap_err();
    assert_eq!(
        refusal(&lld(), Strategy::Align),
        Refusal::Incongruent {
            by: 0x1000,
            leaf: Leaf::M2
        }
    );
    let appended = Image {
        appended: 10,
        ..lld()
    };
    assert_eq!(
        refusal(&appended, Strategy::Shift),
        Refusal::AppendedData { bytes: 10 }
    );
    let textrel = Image {
        dynamic: vec![(elf::DT_TEXTREL.0, 0)],
        ..lld()
    };
    assert_eq!(refusal(&textrel, Strategy::Shift), Refusal::TextRelocations);
    let small = image(ObjectKind::Pie, &[(0, 0, M, 0x1000, RX)]);
    assert_eq!(
        refusal(&small, Strategy::Shift),
        Refusal::Small { leaf: Leaf::M2 }
    );
    let writable = image(ObjectKind::Pie, &[(0, 0, 9 * M, 0x1000, perms(true, true))]);
    assert_eq!(refusal(&writable, Strategy::Shift), Refusal::Writable);
    let pinned = image(ObjectKind::Executable, &[(0x10000, 0, 9 * M, 0x1000, RX)]);
    assert_eq!(
        refusal(&pinned, Strategy::Shift),
        Refusal::Pinned {
            vaddr: 0x10000,
            leaf: Leaf::M2
        }
    );
    let first = image(ObjectKind::Pie, &[(0x10000, 0x10000, 9 * M, 0x1000, RX)]);
    assert!(matches!(
        refusal(&first, Strategy::Shift),
        Refusal::FirstAddress { vaddr: 0x10000, .. }
    ));
    let shared = image(
        ObjectKind::Pie,
        &[
            (0, 0, 0x2000, 0x1000, R),
            (0x2000, 0x1000, 9 * M, 0x1000, RX),
        ],
    );
    assert!(matches!(
        refusal(&shared, Strategy::Shift),
        Refusal::FileOverlap { .. }
    ));
}

#[test]
fn appended_data_does_not_hinder_a_header_edit() {
    let loads = [(0, 0, 0x3000, 0x1000, R), (2 * M, 2 * M, 9 * M, 0x1000, RX)];
    let image = Image {
        appended: 10,
        ..image(ObjectKind::Pie, &loads)
    };
    assert_eq!(
        layout(&image, Strategy::Shift, &OPTIONS).unwrap().strategy,
        Strategy::Align
    );
}

#[test]
fn tail_causes_vanish_with_the_tail() {
    let image = image(
        ObjectKind::Executable,
        &[
            (0x400000, 0, 3 * M, 0x1000, RX),
            (8 * M, 3 * M, 0x1000, 0x1000, RW),
        ],
    );
    let options = Options {
        extend_tail: true,
        ..OPTIONS
    };
    let plan = layout(&image, Strategy::Shift, &options).unwrap();
    let reach = reach(&plan.segments, Leaf::K4, Leaf::M2, Bias::ZERO);
    assert!(
        !reach.segments[0]
            .causes
            .iter()
            .any(|cause| matches!(cause, Cause::Tail { .. }))
    );
    assert_eq!(plan.cost.aslr_bits, 0);
}

/// A file of 32 bits that is nearly as long as its offsets can tell.
#[test]
fn offsets_beyond_the_class_are_refused() {
    const END: u64 = 1 << 32;
    let loads = [
        (0, 0, 0x3000, 0x1000, R),
        (2 * M + 0x1000, 0x3000, 9 * M, 0x1000, RX),
        (END - 32 * M, END - 2 * M, M, 0x1000, RW),
    ];
    let narrow = Encoding {
        class: Class::Bits32,
        order: ByteOrder::BigEndian,
    };
    let with = |encoding, len| Image {
        encoding,
        file_len: len,
        ..image(ObjectKind::Pie, &loads)
    };
    let old = with(narrow, END - M);
    assert!(
        layout(&old, Strategy::Shift, &OPTIONS)
            .is_err_and(|why| matches!(why, Refusal::TooLarge { .. }))
    );
    let wide = with(lld().encoding, END - M);
    assert!(layout(&wide, Strategy::Shift, &OPTIONS).is_ok_and(|plan| plan.file_len > END));
    // What does not move needs no offsets.
    let kept = [(0, 0, 0x3000, 0x1000, R), (2 * M, 2 * M, 9 * M, 0x1000, RX)];
    let kept = Image {
        encoding: narrow,
        file_len: END + M,
        appended: END - 16 * M,
        ..image(ObjectKind::Pie, &kept)
    };
    assert!(layout(&kept, Strategy::Shift, &OPTIONS).is_ok());
}

/// The last window of the address space ends where 32 bits do.
#[test]
fn addresses_beyond_the_class_are_refused() {
    let start = (1 << 32) - 4 * M;
    let image = Image {
        encoding: Encoding {
            class: Class::Bits32,
            order: ByteOrder::LittleEndian,
        },
        ..image(ObjectKind::Executable, &[(start, 0, 3 * M, 0x1000, RX)])
    };
    let options = Options {
        extend_tail: true,
        ..OPTIONS
    };
    assert!(matches!(
        layout(&image, Strategy::Shift, &options),
        Err(Refusal::TooLarge { most: 0xffff_ffff })
    ));
}

#[test]
fn flags_of_unknown_meaning_are_not_merged() {
    let mut flagged = lld();
    let load = |header: &&mut ProgramHeader| header.p_type == elf::PT_LOAD.0;
    flagged.headers.iter_mut().find(load).unwrap().flags |= 1 << 20;
    assert!(layout(&flagged, Strategy::Shift, &OPTIONS).is_ok());
    let refused = layout(&flagged, Strategy::Merge, &OPTIONS);
    assert!(
        matches!(refused, Err(Refusal::UnknownFlags { .. })),
        "{refused:?}"
    );
    assert!(layout(&lld(), Strategy::Merge, &OPTIONS).is_ok());
}
