//! `hugetext bench all`: every benchmark that compares sides, one after the other.

use clap::Args;

use super::calls::{self, Kind};
use super::comparison::Comparison;
use super::interrupt::Interrupt;
use super::{Stop, exec, mprotect, rmap};
use crate::output::Output;

/// Run every benchmark here but tlb; its emulator makes it minutes long
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Smaller sizes and fewer rounds: to see that everything works, not to believe the figures
    #[arg(long)]
    quick: bool,
}

/// Answers `hugetext bench all`. A benchmark whose answer is no is told of and left out; if all
/// are, so is the answer.
pub(super) fn run(
    arguments: &Arguments,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<Vec<Comparison>, Stop> {
    let quick = arguments.quick;
    let outcomes = [
        exec::run(&exec::Arguments::usual(quick), interrupt, output),
        calls::run(
            &calls::Arguments::usual(quick),
            &[Kind::Cold, Kind::Random],
            interrupt,
            output,
        ),
        mprotect::run(&mprotect::Arguments::usual(quick), interrupt, output),
        rmap::run(&rmap::Arguments::usual(quick), interrupt, output),
    ];
    let mut comparisons = Vec::new();
    let mut no = None;
    for outcome in outcomes {
        match outcome {
            Ok(found) => comparisons.extend(found),
            Err(Stop::No(failure)) => {
                output.error(&failure);
                no = Some(failure);
            }
            Err(error) => return Err(error),
        }
    }
    match no {
        Some(failure) if comparisons.is_empty() => Err(Stop::No(failure)),
        _ => Ok(comparisons),
    }
}
