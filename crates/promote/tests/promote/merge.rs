//! Read-only data that completes the windows of text.

use std::path::Path;
use std::process::Command;

use hugetext_leaf::{Completion, ProcessVma, Span};
use hugetext_promote::{Copies, Target};

use crate::{Busy, layout, leaf, promote_all, promote_with, revert_all};

/// The program of merged.c, as GNU ld lays it out. `None`, with the reason printed, if it cannot be built.
fn program(directory: &Path) -> Option<Command> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promote/merged.c");
    let program = directory.join("merged");
    let built = Command::new("cc")
        .args(["-O1", "-pthread", "-pie", "-fPIE", "-fuse-ld=bfd", "-o"])
        .args([&program, &source])
        .output();
    match built {
        Ok(built) if built.status.success() => Some(Command::new(program)),
        Ok(built) => {
            let said = String::from_utf8_lossy(&built.stderr).into_owned();
            eprintln!("skipped: cannot build a program by GNU ld: {said}");
            None
        }
        Err(error) => {
            eprintln!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// The mappings of the program file that can be read, with their rights.
fn of_program(target: &Target) -> Vec<(Span, bool)> {
    let mappings = target.mappings().unwrap();
    let program = mappings.vmas.iter().find(|vma| vma.file.is_some());
    let file = program.and_then(|vma| vma.file);
    let of_it = |vma: &&ProcessVma| vma.file == file && vma.perms.read;
    let vmas = mappings.vmas.iter().filter(of_it);
    vmas.map(|vma| (vma.addresses, vma.perms.exec)).collect()
}

fn huge_text(target: &Target) -> u64 {
    let text = hugetext_host::text_mappings(target.pid()).unwrap();
    text.iter().map(|mapping| mapping.pmd_mapped).sum()
}

#[test]
fn data_beside_text_goes_there_and_back_with_it() {
    let Some(leaf) = leaf() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some(mut program) = program(directory.path()) else {
        return;
    };
    let mut busy = Busy::run(&mut program);
    let target = busy.target().unwrap();
    let (at_first, before) = (layout(&target), of_program(&target));
    let mut copies = Copies::default();
    let Some(outcome) = promote_all(&target, leaf, &mut copies) else {
        return;
    };
    assert_eq!(outcome.data, 0);
    revert_all(&target);
    for round in 0..20 {
        let merged = promote_with(&target, leaf, &mut copies, Completion::ReadOnlyData).unwrap();
        assert_eq!(merged.left, [], "round {round}");
        assert!(merged.data > 0, "round {round}: {merged:?}");
        if round % 5 == 0 {
            busy.assert_well();
            // Every window is huge. A rest of the text that fills less than a quarter of one lies behind the copy, too.
            let windows = leaf.align_down(merged.copied + merged.shared);
            assert_eq!(huge_text(&target), windows, "{merged:?}");
            let rest = merged.copied + merged.shared - windows;
            assert!(rest < leaf.bytes() / 4, "{merged:?}");
        }
        let back = revert_all(&target);
        assert!(back.left.is_empty(), "round {round}: {back:?}");
        assert_eq!(layout(&target), at_first, "round {round}");
    }
    assert_eq!(of_program(&target), before, "rights and number of mappings");
    assert_eq!(huge_text(&target), 0);
    busy.finish();
}
