//! Promotes programs at random, sends signals and kills at random moments, and audits every process after each
//! step. One finding is one line, with the seed and the number of the step.
//!
//! HUGETEXT_CHAOS_SECONDS: how long (20). HUGETEXT_CHAOS_SEED: the seed; a new one without it. HUGETEXT_COMMAND:
//! the command that promotes; without it, the example `stop`. HUGETEXT_RECORD: where the record of lab/results/promote-chaos.md goes.
//! HUGETEXT_CHAOS_VERBOSE: each step is printed.
//! `lab/measure promote-chaos` sets them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod audit;
mod decide;
#[path = "../place/mod.rs"]
mod place;
mod programs;
mod report;
mod run;
mod target;
mod tracer;

use std::time::Duration;

use hugetext_host::Machine;
use hugetext_leaf::Leaf;

use place::keep_mounts_in;
use run::Chaos;

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
    let shown = report::record(&figures);
    println!("{shown}");
    if let Some(file) = std::env::var_os("HUGETEXT_RECORD") {
        std::fs::write(file, shown).unwrap();
    }
    assert!(figures.findings.is_empty(), "{:#?}", figures.findings);
}
