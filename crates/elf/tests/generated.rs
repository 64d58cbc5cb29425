//! Properties that hold for every file that a linker could have made.

#![allow(clippy::expect_used, reason = "test code outside of test functions")]

mod apply;
mod generate;

use apply::apply;
use generate::{Program, program};
use hugetext_elf::{
    Difference, Image, Options, Plan, RewriteError, Strategy, Stretch, plan, rewrite, verify,
    verify_unshared,
};
use hugetext_leaf::Leaf;
use proptest::prelude::*;

/// Bytes of the largest segment: several leaves.
const MOST: u64 = 200_000;

const STRATEGIES: [Strategy; 3] = [Strategy::Align, Strategy::Shift, Strategy::Merge];

fn options(extend_tail: bool) -> Options {
    Options {
        leaf: Leaf::K64,
        page: Leaf::K4,
        extend_tail,
    }
}

/// The old file, the plan and the new file, if a plan is made.
fn fix(program: &Program, strategy: Strategy, extend: bool) -> Option<(Vec<u8>, Plan, Vec<u8>)> {
    let old = program.bytes();
    let image = Image::read(&old).expect("a well-formed file");
    let plan = plan(&image, strategy, &options(extend)).ok()?;
    let operations = rewrite(&old, &image, &plan).expect("a plan can be carried out");
    let new = apply(&old, &operations);
    Some((old, plan, new))
}

/// The bytes between segments, with their offsets.
fn between(file: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let image = Image::read(file).expect("a well-formed file");
    let segments = image.segments.windows(2);
    let gaps = segments.map(|pair| pair[0].file().end as usize..pair[1].offset as usize);
    gaps.map(|gap| (gap.start, file[gap].to_vec())).collect()
}

/// The answers of a filesystem that shares every equal block of two files.
fn by_blocks(old: &[u8], new: &[u8]) -> impl Fn(u64, u64) -> Stretch {
    const BLOCK: usize = 4096;
    fn block(file: &[u8], at: usize) -> Option<&[u8]> {
        file.chunks(BLOCK).nth(at / BLOCK)
    }
    move |at_old, at_new| {
        let [at_old, at_new] = [at_old, at_new].map(|at| at as usize);
        let [old_left, new_left] = [at_old, at_new].map(|at| BLOCK - at % BLOCK);
        let (one, other) = (block(old, at_old), block(new, at_new));
        if old_left == new_left && one.is_some() && one == other {
            Stretch::Shared(old_left as u64)
        } else {
            Stretch::Unknown(old_left.min(new_left) as u64)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_rewritten_is_the_same_program(program in program(MOST), extend in any::<bool>()) {
        for strategy in STRATEGIES {
            let Some((old, plan, new)) = fix(&program, strategy, extend) else {
                continue;
            };
            let verified = verify(&old, &new).unwrap();
            prop_assert!(strategy == Strategy::Merge || verified.permissions.is_empty());
            prop_assert!(strategy == Strategy::Merge || extend || verified.is_exact());
            prop_assert_eq!(new.len() as u64, plan.file_len);
        }
    }

    #[test]
    fn reach_grows_with_the_strategy(program in program(MOST)) {
        let old = program.bytes();
        let image = Image::read(&old).unwrap();
        let reached = STRATEGIES.map(|strategy| {
            plan(&image, strategy, &options(false))
                .map_or(0, |plan| plan.reached(&image, Leaf::K4))
        });
        prop_assert!(reached.is_sorted(), "{:?}", reached);
    }

    #[test]
    fn a_second_fix_has_nothing_to_do(program in program(MOST), extend in any::<bool>()) {
        for strategy in STRATEGIES {
            let Some((_, _, new)) = fix(&program, strategy, extend) else {
                continue;
            };
            let image = Image::read(&new).unwrap();
            let again = plan(&image, strategy, &options(extend)).unwrap();
            prop_assert!(again.is_noop(&image), "{:?}: {:#?}", strategy, again);
        }
    }

    #[test]
    fn shift_grows_the_file_by_less_than_a_leaf_per_segment(program in program(MOST)) {
        if let Some((_, plan, _)) = fix(&program, Strategy::Shift, false) {
            let bound = plan.segments.len() as u64 * Leaf::K64.bytes();
            prop_assert!(plan.cost.apparent < bound);
        }
    }

    #[test]
    fn what_no_header_names_stays_where_it_is(program in program(MOST)) {
        let program = Program { payload: true, ..program };
        let old = program.bytes();
        let image = Image::read(&old).unwrap();
        for strategy in STRATEGIES {
            let Ok(plan) = plan(&image, strategy, &options(false)) else {
                continue;
            };
            match rewrite(&old, &image, &plan) {
                Err(RewriteError::BetweenSegments(_) | RewriteError::Unnamed(_)) => {}
                Err(other) => prop_assert!(false, "{other}"),
                Ok(operations) => {
                    let new = apply(&old, &operations);
                    for (at, bytes) in between(&old) {
                        prop_assert_eq!(&new[at..at + bytes.len()], &bytes[..]);
                    }
                    verify(&old, &new).unwrap();
                }
            }
        }
    }

    #[test]
    fn moved_bytes_that_no_header_names_fail_the_proof(program in program(MOST)) {
        let with = |payload| Program { payload, ..program.clone() };
        // The plan of the file without these bytes, carried out on the file with them.
        let Some((_, plan, _)) = fix(&with(false), Strategy::Shift, false) else {
            return Ok(());
        };
        let old = with(true).bytes();
        let (clean, image) = (with(false).bytes(), Image::read(&old).unwrap());
        let new = apply(&old, &rewrite(&clean, &image, &plan).unwrap());
        let moves = |(at, bytes): &(usize, Vec<u8>)| {
            bytes.iter().any(|byte| *byte != 0) && new[*at..at + bytes.len()] != bytes[..]
        };
        if between(&old).iter().any(moves) {
            let found = verify(&old, &new);
            prop_assert!(matches!(found, Err(Difference::Unnamed { .. })), "{found:?}");
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(program in program(MOST), at in any::<prop::sample::Index>()) {
        let Some((old, plan, mut new)) = fix(&program, Strategy::Shift, false) else {
            return Ok(());
        };
        let at = at.index(new.len());
        new[at] ^= 0x10;
        let named = |image: &Image| {
            let in_segment = image.segments.iter().any(|s| s.file().contains(at as u64));
            let in_table = image.section_table.offset <= at as u64 && image.section_table.count > 0;
            in_segment || in_table
        };
        // Damaged headers may leave nothing to read.
        if Image::read(&new).is_ok_and(|image| named(&image)) {
            // Zeroed memory after the old end is reported but is no error: a p_memsz that grew.
            let found = [verify(&old, &new), verify_unshared(&old, &new, by_blocks(&old, &new))];
            for (found, how) in found.into_iter().zip(["whole", "by blocks"]) {
                let missed = found.is_ok_and(|found| found.added.is_empty());
                prop_assert!(!missed, "byte {at:#x} of {plan:#?}, {how}");
            }
        }
    }

    #[test]
    fn what_is_known_to_be_shared_changes_no_verdict(program in program(MOST)) {
        for strategy in STRATEGIES {
            if let Some((old, _, new)) = fix(&program, strategy, true) {
                let found = verify_unshared(&old, &new, by_blocks(&old, &new));
                prop_assert_eq!(found.unwrap(), verify(&old, &new).unwrap());
            }
        }
    }
}
