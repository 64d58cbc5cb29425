//! Promotes programs at random, sends signals and kills at random moments, and audits every process after each
//! step. One finding is one line, with the seed and the number of the step.
//!
//! HUGETEXT_CHAOS_SECONDS: how long (20). HUGETEXT_CHAOS_SEED: the seed; a new one without it. HUGETEXT_COMMAND:
//! the command that promotes; without it, the example `stop`. HUGETEXT_DOCS: where the report goes, as Markdown.
//! HUGETEXT_CHAOS_VERBOSE: each step is printed.
//! `make promote-chaos` sets them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod audit;
mod decide;
mod programs;
mod report;
mod run;
mod target;
mod tracer;

use std::time::Duration;

use hugetext_host::Machine;
use hugetext_leaf::Leaf;
use nix::sched::{CloneFlags, unshare};

use run::Chaos;

/// Gives this thread a mount namespace of its own, so that the copies of promotion go with it.
fn keep_mounts_in() {
    use nix::mount::{MsFlags, mount};
    if !hugetext_host::is_root() || unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return;
    }
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
    let (kind, none) = (Some("tmpfs"), MsFlags::empty());
    mount(kind, "/run", kind, none, Some("mode=0755")).unwrap();
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}, which is no number")),
    )
}

#[test]
fn chaos_harms_no_process() {
    if Machine::this().pmd.is_none_or(|leaf| leaf > Leaf::M2) {
        eprintln!("skipped: no PMD leaf of 2 MiB here");
        return;
    }
    keep_mounts_in();
    let seed = number("HUGETEXT_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let duration = Duration::from_secs(number("HUGETEXT_CHAOS_SECONDS").unwrap_or(20));
    println!("HUGETEXT_CHAOS_SEED={seed}");
    let mut chaos = Chaos::new(seed);
    let figures = chaos.run(duration);
    let shown = report::markdown(&figures);
    println!("{shown}");
    if let Some(docs) = std::env::var_os("HUGETEXT_DOCS") {
        std::fs::write(docs, shown).unwrap();
    }
    assert!(figures.findings.is_empty(), "{:#?}", figures.findings);
}
