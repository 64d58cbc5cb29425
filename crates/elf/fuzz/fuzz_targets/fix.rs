//! For any bytes, reading, planning, rewriting and verifying neither panic nor overflow, and a
//! rewritten file is verified to be the same program.

#![no_main]

#[path = "../../tests/apply/mod.rs"]
mod apply;

use apply::apply;
use hugetext_elf::{
    CoreDump, Dependencies, Image, MovedText, Options, Plan, Strategy, plan, rewrite, self_warming,
    verify,
};
use hugetext_leaf::Leaf;
use libfuzzer_sys::fuzz_target;

/// Longer outputs are planned but not written.
const MAX_OUTPUT: u64 = 8 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((choice, file)) = data.split_last() else {
        return;
    };
    let _ = CoreDump::read(file);
    let Ok(image) = Image::read(file) else {
        return;
    };
    let _ = Dependencies::read(file, &image);
    let options = Options {
        leaf: leaf(*choice),
        page: if choice & 2 == 0 { Leaf::K4 } else { Leaf::K16 }.min(leaf(*choice)),
        extend_tail: choice & 4 != 0,
        moved: if choice & 8 == 0 { MovedText::Nearest } else { MovedText::BehindOld },
    };
    let readahead = if choice & 8 == 0 { 0 } else { options.leaf.bytes() };
    for strategy in [Strategy::Align, Strategy::Shift, Strategy::Merge] {
        let Ok(plan) = plan(file, &image, strategy, &options) else {
            continue;
        };
        let _ = plan.reached(&image, options.page);
        check(file, &image, &plan);
        if let Ok(warming) = self_warming(file, &image, plan, &options, readahead) {
            check(file, &image, &warming);
        }
    }
    // Two unrelated files reach the paths on which verification fails.
    let (one, other) = file.split_at(file.len() / 2);
    let _ = verify(one, other);
    let _ = verify(file, one);
});

/// With a leaf of two pages, small files can hold windows. They are fast to try.
fn leaf(choice: u8) -> Leaf {
    match choice >> 6 {
        0 => Leaf::K64,
        1 => Leaf::M2,
        _ => Leaf::from_bytes(8192).unwrap_or(Leaf::K16),
    }
}

/// Carries a plan out, and verifies the result.
fn check(file: &[u8], image: &Image, plan: &Plan) {
    // What is planned can be carried out.
    let operations = rewrite(file, image, plan).expect("a plan");
    if plan.file_len > MAX_OUTPUT {
        return;
    }
    let new = apply(file, &operations);
    if let Err(difference) = verify(file, &new) {
        panic!("{difference}\n{image:#?}\n{plan:#?}");
    }
}
