//! A program on its way through the engine, as a program of other people would use it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use hugetext_elf::{Strategy, Verified};
use hugetext_engine::{
    Assessment, Error, FixDestination, FixRequest, FixTarget, HeldText, HostContext, Look, Program,
    ProgramOnHost, Remedy, StrategyChoice, WarmMethod, WarmPolicy, plan_fix, warm, warm_ranges,
    write_fix,
};
use hugetext_leaf::Span;
use hugetext_leaf::verdict::LeafUse;

/// This machine with its geometry; `None`, with the reason printed, if it has no huge pages.
fn host() -> Option<HostContext> {
    match HostContext::with_huge_pages() {
        Ok(host) if host.geometry.is_some() => Some(host),
        Ok(_) => {
            println!("skipped: the leaf sizes of this architecture are unknown");
            None
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn a_program_is_assessed_fixed_warmed_and_held() {
    let Some(host) = host() else { return };
    let geometry = host.geometry.unwrap();
    // A large program that is there wherever this test is built.
    let large = Path::new(env!("CARGO"));
    let program = ProgramOnHost::open(large, &host).unwrap();
    let assessment = Assessment::of(&program, &geometry, Look::AtHeaders);
    if assessment.after_fix == 0 {
        println!(
            "skipped: the text of cargo fills no window of {}",
            assessment.leaf
        );
        return;
    }

    let directory = tempfile::tempdir().unwrap();
    let target = FixTarget::Copy {
        path: directory.path().join("fixed"),
        privileged: false,
        vouched: false,
    };
    let request = FixRequest::plain(StrategyChoice::AtMost(Strategy::Shift), geometry);
    let planned = plan_fix(&program, &request, &target).unwrap();
    let fix = planned.decision.proposal.unwrap();
    assert_eq!(fix.reached_after, assessment.after_fix);
    let written = write_fix(
        &program,
        &fix,
        &planned.destination,
        &geometry,
        LeafUse::Leaves,
    )
    .unwrap();
    let written = written.unwrap();
    assert_eq!(written.verified, Verified::default());

    let fixed = ProgramOnHost::open(&written.path, &host).unwrap();
    let windows = fixed.windows();
    assert!(!windows.is_empty());
    let outcome = warm(&fixed, WarmPolicy::InPlace).unwrap();
    if !outcome.is_warm() {
        println!("skipped: {}", outcome.obstacle());
        return;
    }
    // One window by itself, as a daemon with a budget takes it.
    let first = windows[0];
    let one = Span::new(first.start, first.start + host.leaf.bytes());
    let outcome = warm_ranges(&fixed, &[one], host.leaf, WarmPolicy::LookOnly).unwrap();
    assert_eq!(
        (outcome.windows, outcome.method),
        (1, Some(WarmMethod::AlreadyHuge))
    );
    let held = HeldText::map(&fixed, &windows, host.leaf).unwrap();
    assert_eq!(held.bytes(), windows.iter().map(Span::len).sum::<u64>());
    let cache = fixed.page_cache(&windows, host.leaf).unwrap();
    assert!(cache.is_warm() && cache.windows().count() == cache.total());
}

#[test]
fn an_error_names_the_file_and_what_would_help() {
    let missing = Program::open(Path::new("/nowhere/program")).unwrap_err();
    assert!(
        missing.to_string().starts_with("/nowhere/program: "),
        "{missing}"
    );
    assert_eq!(missing.remedy(), None);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("line\nbreak");
    fs::copy("/bin/true", &path).unwrap();
    let program = Program::open(&path).unwrap();
    let target = FixTarget::Copy {
        path: path.clone(),
        privileged: false,
        vouched: false,
    };
    let refused = FixDestination::of(&program, &target).unwrap_err();
    assert!(matches!(refused, Error::OutputIsInput { .. }));
    assert_eq!(refused.remedy(), Some(Remedy::ReplaceInput));
    assert!(!refused.to_string().contains('\n'), "{refused}");

    fs::write(&path, "upgraded meanwhile").unwrap();
    let changed = program.ensure_unchanged().unwrap_err();
    assert_eq!(changed.remedy(), Some(Remedy::TryAgain));
}
