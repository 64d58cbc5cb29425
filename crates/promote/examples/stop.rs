//! Stops processes, as `hugetext promote` does, for tests of this crate alone:
//! `stop promote [--merge|--revert] [--max-pause MS] PID…`. For each stop it prints `"total_ns": N`. It ends with 0
//! if something was done, with 1 if nothing was, and with 2 after an error.

use std::process::ExitCode;
use std::time::Duration;

use hugetext_host::{Machine, Pid};
use hugetext_leaf::{Backend, Completion, Leaf, PromotionPolicy, promotion};
use hugetext_promote::{
    Copies, Refusal, SwapError, SwapOutcome, Target, give_back_unused, promote, revert,
};

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    merge: bool,
    revert: bool,
    max_pause: Option<Duration>,
    targets: Vec<Pid>,
}

impl Wanted {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "promote" => {}
                "--merge" => wanted.merge = true,
                "--revert" => wanted.revert = true,
                "--max-pause" => {
                    let ms = words.next()?.parse().ok()?;
                    wanted.max_pause = Some(Duration::from_millis(ms));
                }
                pid => wanted.targets.push(pid.parse().ok()?),
            }
        }
        Some(wanted)
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::parse(std::env::args().skip(1));
    let (Some(wanted), Some(leaf)) = (wanted, Machine::this().pmd) else {
        eprintln!(
            "stop promote [--merge|--revert] [--max-pause MS] PID…, on a machine with a PMD leaf"
        );
        return ExitCode::from(2);
    };
    let mut copies = Copies::default();
    let mut worst = 0;
    for pid in &wanted.targets {
        worst = worst.max(match change(*pid, &wanted, leaf, &mut copies) {
            Ok(outcome) => {
                for pause in &outcome.pauses {
                    println!("\"total_ns\": {}", pause.total.as_nanos());
                }
                u8::from(outcome.done.is_empty())
            }
            Err(error) => {
                eprintln!("process {pid}: {error}");
                2
            }
        });
    }
    give_back_unused();
    ExitCode::from(worst)
}

fn change(
    pid: Pid,
    wanted: &Wanted,
    leaf: Leaf,
    copies: &mut Copies,
) -> Result<SwapOutcome, SwapError> {
    let target = Target::open(pid)?.with_max_pause(wanted.max_pause);
    let mappings = target.mappings().map_err(Refusal::from)?;
    if wanted.revert {
        return revert(&target, &mappings);
    }
    let completion = if wanted.merge {
        Completion::ReadOnlyData
    } else {
        Completion::Unused
    };
    let policy = PromotionPolicy {
        leaf,
        backend: Backend::RemapOnly,
        completion,
    };
    let plan = promotion(&mappings.vmas, policy, |_| None);
    promote(&target, &mappings, &plan.runs, leaf, copies)
}
