//! Room for the cut of text, and what a cut leaves as it is.

use hugetext_elf::{
    Image, PlanError, Refusal, Strategy, Verified, layout, plan, self_warming, verify,
};
use proptest::prelude::*;

use crate::generate::{Encoding, Load, Program};
use crate::{asked, load_count, options, warm};

/// Two PT_LOADs of data, one close behind the other in most cases.
pub(crate) fn data() -> impl prop::strategy::Strategy<Value = [Load; 2]> {
    use prop::strategy::Strategy;

    let load = (0u64..3, 0u64..5000, 1u64..9000, 0u64..2, 12u32..14);
    let load = load.prop_map(|(skip, gap, filesz, bss, align)| Load {
        skip,
        gap,
        padding: 0,
        filesz,
        bss: bss * 500,
        flags: 6,
        align,
    });
    [load.clone(), load]
}

/// As lld lays out: data with RELRO, then the other data, an unmapped page apart. No header is free.
fn lld_program() -> Program {
    let load = |filesz, flags| Load {
        skip: 0,
        gap: 0,
        padding: 0,
        filesz,
        bss: 0,
        flags,
        align: 12,
    };
    Program {
        base: None,
        loads: vec![
            load(5000, 4),
            load(300_000, 5),
            Load {
                bss: 100,
                ..load(5000, 6)
            },
            Load {
                skip: 1,
                bss: 9000,
                ..load(3000, 6)
            },
        ],
        comment: 0,
        sections: true,
        spare: 0,
        payload: false,
        encoding: Encoding {
            wide: true,
            big: false,
        },
    }
}

#[test]
fn two_segments_of_data_give_one_header_to_the_cut() {
    let program = lld_program();
    let (old, base, plan, new) = warm(&program, Strategy::Shift).unwrap();
    assert_eq!(load_count(&plan), load_count(&base));
    assert_eq!(asked(&new).asked, asked(&new).windows);
    let verified = verify(&old, &new).unwrap();
    assert!(
        verified != Verified::default() && plan.explains(&verified),
        "{verified:?}"
    );
}

/// As GNU ld lays out a shared object without notes: no header is free and no data can be joined. Text ends
/// behind its windows, and the first page has room.
fn full_program() -> Program {
    let mut program = lld_program();
    program.loads.pop();
    program.loads[1].gap = 3000;
    program
}

#[test]
fn without_room_nothing_is_cut() {
    assert!(warm(&full_program(), Strategy::Shift).is_none());
}

#[test]
fn a_cut_keeps_an_alignment_that_is_larger_than_the_leaf() {
    let mut program = full_program();
    program.spare = 1;
    program.loads[1].align = 17;
    let (old, _, plan, new) = warm(&program, Strategy::Shift).unwrap();
    assert!(plan.explains(&verify(&old, &new).unwrap()));
    assert!(asked(&new).asked > 0);
}

/// Loaders map up to the end of the last PT_LOAD, and glibc forbids access from the end of the first to the begin of the last.
#[test]
fn the_last_pt_load_repeats_nothing() {
    let mut program = full_program();
    program.loads[2].flags = 4;
    program.loads[2].bss = 0;
    program.spare = 2;
    let (old, base, plan, new) = warm(&program, Strategy::Merge).unwrap();
    assert_eq!(
        base.segments.len(),
        1,
        "text and data around it are one PT_LOAD"
    );
    assert!(verify(&old, &new).is_ok());
    assert!(!plan.repeats_text());
}

#[test]
fn bytes_between_merged_segments_are_found_after_a_cut_too() {
    let mut program = full_program();
    program.payload = true;
    program.spare = 1;
    (program.loads[1].padding, program.loads[1].skip) = (2, 20);
    let old = program.bytes();
    let image = Image::read(&old).unwrap();
    let base = layout(&image, Strategy::Merge, &options(false)).unwrap();
    let cut = self_warming(&old, &image, base, &options(false), 0);
    for refused in [plan(&old, &image, Strategy::Merge, &options(false)), cut] {
        let found = Refusal::BetweenSegments { offset: 0 };
        let found = std::mem::discriminant(&found);
        let Err(PlanError::Refusal(refusal)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(std::mem::discriminant(&refusal), found, "{refusal}");
    }
}

#[test]
fn data_is_not_joined_over_bytes_that_no_header_names() {
    let mut program = lld_program();
    program.loads[3].padding = 2;
    assert!(warm(&program, Strategy::Shift).is_some());
    program.payload = true;
    assert!(warm(&program, Strategy::Shift).is_none());
}
