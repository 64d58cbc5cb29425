//! Properties that hold for every file that a linker could have made.

#![allow(clippy::expect_used, reason = "test code outside of test functions")]

#[path = "../apply/mod.rs"]
mod apply;
mod cut;
#[path = "../generate/mod.rs"]
mod generate;

use apply::apply;
use cut::data;
use generate::{Program, program};
use hugetext_elf::{
    Difference, Image, MovedText, Options, Plan, PlanError, Strategy, Stretch, Verified, Warning,
    is_clear_of, layout, plan, rewrite, self_warming, verify, verify_unshared,
};
use hugetext_leaf::{Asker, Bias, ColdStart, Leaf, ObjectKind, Start, cold_start, vmas};
use proptest::prelude::*;

/// Bytes of the largest segment: several leaves.
const MOST: u64 = 200_000;

const STRATEGIES: [Strategy; 3] = [Strategy::Align, Strategy::Shift, Strategy::Merge];

fn options(extend_tail: bool) -> Options {
    Options {
        leaf: Leaf::K64,
        page: Leaf::K4,
        extend_tail,
        moved: MovedText::Nearest,
    }
}

/// The old file, the plan and the new file, if a plan is made.
fn fix(program: &Program, strategy: Strategy, extend: bool) -> Option<(Vec<u8>, Plan, Vec<u8>)> {
    let old = program.bytes();
    let image = Image::read(&old).expect("a well-formed file");
    let plan = plan(&old, &image, strategy, &options(extend)).ok()?;
    let operations = rewrite(&old, &image, &plan).expect("a plan can be carried out");
    let new = apply(&old, &operations);
    Some((old, plan, new))
}

/// The same for a file that warms itself, with what the strategy alone gives.
fn warm(program: &Program, strategy: Strategy) -> Option<(Vec<u8>, Plan, Plan, Vec<u8>)> {
    warm_at(program, strategy, 0)
}

/// The same, kept clear of a readahead of so many bytes.
fn warm_at(
    program: &Program,
    strategy: Strategy,
    readahead: u64,
) -> Option<(Vec<u8>, Plan, Plan, Vec<u8>)> {
    let old = program.bytes();
    let image = Image::read(&old).expect("a well-formed file");
    let base = plan(&old, &image, strategy, &options(false)).ok()?;
    let plan = self_warming(&old, &image, base.clone(), &options(false), readahead).ok()?;
    let operations = rewrite(&old, &image, &plan).expect("a plan can be carried out");
    let new = apply(&old, &operations);
    Some((old, base, plan, new))
}

/// Windows of text that begin and end inside one congruent PT_LOAD for which glibc may ask.
fn reachable(image: &Image) -> u64 {
    let texts = image.segments.iter().filter(|segment| {
        let delta = segment.vaddr.wrapping_sub(segment.offset);
        segment.is_text() && !segment.perms.write && Leaf::K64.is_aligned(delta)
    });
    texts
        .map(|segment| {
            let first = Leaf::K64.align_up(segment.vaddr);
            // Loaders clear the rest of a page that zeros follow, so it is no page of the file.
            let end = if segment.memsz > segment.filesz {
                Leaf::K4.align_down(segment.file_backed().end)
            } else {
                Leaf::K4.align_up(segment.file_backed().end)
            };
            // Of a program glibc asks for no PT_LOAD whose p_memsz is shorter than a leaf, even if the
            // page at its end makes the window whole.
            let own = segment.memory().end.saturating_sub(first);
            if image.kind != ObjectKind::SharedObject && own < Leaf::K64.bytes() {
                return 0;
            }
            Leaf::K64.align_down(end).saturating_sub(first) / Leaf::K64.bytes()
        })
        .sum()
}

fn asked(file: &[u8]) -> ColdStart {
    let image = Image::read(file).expect("a well-formed file");
    let start = Start {
        kind: image.kind,
        segments: &image.segments,
        early: &image.early_reads(),
        page: Leaf::K4,
        leaf: Leaf::K64,
        bias: Bias::aligned(Leaf::K64),
        readahead: 0,
    };
    cold_start(Asker::GlibcTunable, &start)
}

/// The number of PT_LOADs.
fn load_count(plan: &Plan) -> usize {
    plan.headers
        .iter()
        .filter(|header| header.p_type == 1)
        .count()
}

fn joins_data(plan: &Plan) -> bool {
    let mut warnings = plan.warnings.iter();
    warnings.any(|warning| matches!(warning, Warning::DataJoined { .. }))
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

/// Whether the byte of a file of this plan says something of a program header that is not used: anything but
/// its type. No loader reads it.
fn is_unused(program: &Program, plan: &Plan, at: u64) -> bool {
    /// Bytes of its type.
    const TYPE: u64 = 4;
    let entry = program.encoding.program_header();
    let headers = (0u64..).zip(&plan.headers);
    headers
        .filter(|(_, header)| header.p_type == 0)
        .any(|(index, _)| {
            let start = plan.program_table + index * entry;
            (start + TYPE..start + entry).contains(&at)
        })
}

/// Whether the byte of a file of this plan means something: a segment or the section table holds it, and
/// it is not of a program header that is not used.
fn is_named(program: &Program, plan: &Plan, image: &Image, at: u64) -> bool {
    let in_segment = image.segments.iter().any(|s| s.file().contains(at));
    let in_table = image.section_table.offset <= at && image.section_table.count > 0;
    (in_segment || in_table) && !is_unused(program, plan, at)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_rewritten_is_the_same_program(program in program(MOST), extend in any::<bool>()) {
        for strategy in STRATEGIES {
            let Some((old, plan, new)) = fix(&program, strategy, extend) else {
                continue;
            };
            let verified = verify(&old, &new).unwrap();
            prop_assert!(strategy == Strategy::Merge || verified.permissions.is_empty());
            prop_assert!(strategy == Strategy::Merge || extend || verified == Verified::default());
            prop_assert_eq!(new.len() as u64, plan.file_len);
        }
    }

    #[test]
    fn reach_grows_with_the_strategy(program in program(MOST)) {
        let old = program.bytes();
        let image = Image::read(&old).unwrap();
        let reached = STRATEGIES.map(|strategy| {
            plan(&old, &image, strategy, &options(false))
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
            let again = plan(&new, &image, strategy, &options(extend)).unwrap();
            prop_assert!(again.is_noop(&image), "{:?}: {:#?}", strategy, again);
        }
    }

    /// A profiler that looks an offset of one file up in the other finds nothing, instead of another function.
    #[test]
    fn offsets_of_moved_text_mean_nothing_in_the_old_file(program in program(MOST)) {
        let old = program.bytes();
        let image = Image::read(&old).unwrap();
        let apart = Options { moved: MovedText::BehindOld, ..options(false) };
        let Ok(plan) = plan(&old, &image, Strategy::Shift, &apart) else {
            return Ok(());
        };
        let end = image.segments.iter().map(|segment| segment.offset + segment.memsz).max();
        for (was, is) in image.segments.iter().zip(&plan.segments).filter(|(was, _)| was.is_text()) {
            prop_assert!(is.offset == was.offset || Some(is.offset) >= end, "{plan:#?}");
        }
        let new = apply(&old, &rewrite(&old, &image, &plan).unwrap());
        let image = Image::read(&new).unwrap();
        prop_assert!(verify(&old, &new).is_ok());
        prop_assert!(hugetext_elf::plan(&new, &image, Strategy::Shift, &apart).unwrap().is_noop(&image));
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
            match plan(&old, &image, strategy, &options(false)) {
                Err(PlanError::Refusal(_)) => {}
                Err(PlanError::Image(error)) => prop_assert!(false, "{error}"),
                Ok(plan) => {
                    let new = apply(&old, &rewrite(&old, &image, &plan).unwrap());
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
        // Damaged headers may leave nothing to read.
        if Image::read(&new).is_ok_and(|image| is_named(&program, &plan, &image, at as u64)) {
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

    #[test]
    fn a_file_that_warms_itself_is_the_same_program(program in program(MOST)) {
        for strategy in STRATEGIES {
            let Some((old, base, plan, new)) = warm(&program, strategy) else {
                continue;
            };
            let verified = verify(&old, &new).unwrap();
            prop_assert!(plan.explains(&verified));
            prop_assert_eq!(plan.program_table, base.program_table);
            // Another test has data that is joined, whose mappings are joined too.
            if joins_data(&plan) {
                continue;
            }
            prop_assert!(strategy == Strategy::Merge || verified == Verified::default());
            prop_assert_eq!(new.len() as u64, plan.file_len);
            // The kernel joins what is cut, so the mappings are those of the strategy alone.
            let image = Image::read(&new).unwrap();
            prop_assert_eq!(vmas(&image.segments, Leaf::K4), vmas(&base.segments, Leaf::K4));
            prop_assert_eq!(plan.reached(&image, Leaf::K4), base.reached(&image, Leaf::K4));
        }
    }

    #[test]
    fn text_that_a_long_readahead_would_reach_lies_apart(program in program(MOST)) {
        const READAHEAD: u64 = 128 << 10;
        let program = Program { spare: 5, ..program };
        for strategy in [Strategy::Align, Strategy::Shift] {
            let Some((old, base, plan, new)) = warm_at(&program, strategy, READAHEAD) else {
                continue;
            };
            prop_assert!(plan.explains(&verify(&old, &new).unwrap()));
            let image = Image::read(&new).unwrap();
            prop_assert_eq!(&image.segments, &plan.segments);
            prop_assert_eq!(plan.reached(&image, Leaf::K4), base.reached(&image, Leaf::K4));
            let near = warm(&program, strategy).unwrap().2;
            // A part that is repeated ends before zeros, and before the end of a section that begins in it.
            prop_assert!(asked(&new).asked >= asked(&warm(&program, strategy).unwrap().3).asked);
            let is_long = |segment: &hugetext_leaf::Segment| segment.filesz >= READAHEAD;
            let cut = near.segments.len() > base.segments.len();
            let asked: Vec<_> = image.segments.iter().filter(|segment| {
                segment.is_text() && Leaf::K64.is_aligned(segment.vaddr) && Leaf::K64.is_aligned(segment.offset)
            }).collect();
            // Text at a window from the start is not cut, and no hole is made for it.
            if cut && asked.len() == 1 && asked.iter().all(|segment| is_long(segment)) && plan != near {
                prop_assert!(is_clear_of(&image.segments, Leaf::K64, READAHEAD), "{plan:#?}");
            }
            // It has nothing to do a second time.
            let again = layout(&image, Strategy::Shift, &options(false));
            let is_noop = again.as_ref().is_ok_and(|again| again.is_noop(&image));
            prop_assert!(is_noop || strategy == Strategy::Align, "{again:#?}");
        }
    }

    #[test]
    fn with_room_every_clean_window_is_asked_for(program in program(MOST)) {
        // A merge has several sections in a PT_LOAD. Only without them all may be repeated at once.
        let whole = Program { spare: 5, sections: false, comment: 0, ..program.clone() };
        let program = Program { spare: 5, ..program };
        for (strategy, program) in [(Strategy::Shift, program), (Strategy::Merge, whole)] {
            let Some((_, _, plan, new)) = warm(&program, strategy) else {
                continue;
            };
            let image = Image::read(&new).unwrap();
            let found = asked(&new);
            let reached = plan.reached(&image, Leaf::K4) > 0;
            // The header spoils at most one window, and a mapping without it has none spoiled.
            let readable = image.segments.iter().all(|s| s.perms.read || !s.perms.exec);
            let others_follow = image.segments.last().is_some_and(|last| !last.is_text());
            if reached && readable && others_follow && program.loads.iter().all(|load| load.flags != 7) {
                prop_assert!(found.huge + 1 >= reachable(&image), "{found:?} {plan:#?}");
            }
        }
    }

    #[test]
    fn only_the_window_of_the_header_itself_is_spoiled(program in program(MOST)) {
        let program = Program { spare: 5, ..program };
        for strategy in STRATEGIES {
            let Some((_, _, _, new)) = warm(&program, strategy) else {
                continue;
            };
            let image = Image::read(&new).unwrap();
            // The windows in whose addresses a byte that is read early is mapped. No layout frees them.
            let early = image.early_reads();
            let texts = image.segments.iter().filter(|segment| segment.is_text());
            let mut held: Vec<u64> = texts
                .flat_map(|text| {
                    let delta = text.vaddr.wrapping_sub(text.offset);
                    let read = early.iter().map(move |read| read.file.intersect(&text.file()));
                    let pages = read.filter(|read| !read.is_empty()).flat_map(|read| read.start..read.end);
                    pages.map(move |at| Leaf::K64.align_down(at.wrapping_add(delta)))
                })
                .collect();
            held.dedup();
            let found = asked(&new);
            prop_assert!(found.spoiled <= held.len() as u64, "{found:?} {held:?} {image:#?}");
        }
    }

    /// GNU strip would place such a section twice, and leave zeros in one of the places.
    #[test]
    fn no_section_lies_in_a_part_that_is_repeated(program in program(MOST)) {
        let program = Program { spare: 5, sections: true, ..program };
        for strategy in [Strategy::Shift, Strategy::Merge] {
            let Some((_, _, plan, _)) = warm(&program, strategy) else {
                continue;
            };
            let loads: Vec<_> = plan.headers.iter().filter(|header| header.p_type == 1).collect();
            for pair in loads.windows(2) {
                let (around, inner) = (pair[0], pair[1]);
                if inner.vaddr >= around.vaddr + around.memsz {
                    continue;
                }
                let end = inner.vaddr + inner.memsz;
                // A section is a segment of the old file.
                let image = Image::read(&program.bytes()).unwrap();
                let mut sections = image.segments.iter().map(|segment| segment.file_backed());
                prop_assert!(!sections.any(|s| inner.vaddr <= s.start && s.end <= end), "{plan:#?}");
            }
        }
    }

    #[test]
    fn data_that_is_joined_for_a_header_stays_the_same_data(
        program in program(MOST), data in data()
    ) {
        // No header is free, and the text before the data has windows in most cases.
        let loads = program.loads.iter().filter(|load| load.flags & 2 == 0).cloned();
        let loads = loads.chain(data).collect();
        let program = Program { spare: 0, loads, ..program };
        let Some((old, base, plan, new)) = warm(&program, Strategy::Shift) else {
            return Ok(());
        };
        prop_assert_eq!(joins_data(&plan), load_count(&plan) <= load_count(&base) && plan != base);
        let verified = verify(&old, &new);
        prop_assert!(verified.is_ok(), "{:?} {plan:#?}", verified);
    }

    #[test]
    fn a_file_that_warms_itself_is_left_alone(program in program(MOST)) {
        // A merge would have something to do again, and is refused.
        for strategy in [Strategy::Align, Strategy::Shift] {
            let Some((_, _, _, new)) = warm(&program, strategy) else {
                continue;
            };
            let image = Image::read(&new).unwrap();
            let again = plan(&new, &image, strategy, &options(false)).unwrap();
            // A file with fewer spare headers than cuts has none left, or gets another by joining data.
            if let Ok(again) = self_warming(&new, &image, again, &options(false), 0) {
                let is_done = again.is_noop(&image) || joins_data(&again);
                prop_assert!(is_done, "{:?}: {:#?}", strategy, again);
            }
        }
    }

    #[test]
    fn a_changed_byte_of_a_file_that_warms_itself_is_noticed(
        program in program(MOST), at in any::<prop::sample::Index>()
    ) {
        let program = Program { spare: 2, ..program };
        let Some((old, _, plan, mut new)) = warm(&program, Strategy::Shift) else {
            return Ok(());
        };
        let at = at.index(new.len());
        new[at] ^= 0x10;
        if Image::read(&new).is_ok_and(|image| is_named(&program, &plan, &image, at as u64)) {
            let missed = verify(&old, &new).is_ok_and(|found| found.added.is_empty());
            prop_assert!(!missed, "byte {at:#x} of {plan:#?}");
        }
    }
}
