//! `hugetext bench all`: every benchmark, one after the other.

use clap::Args;

use super::calls::{self, Kind};
use super::comparison::Comparison;
use super::interrupt::Interrupt;
use super::{Stop, exec, mprotect, rmap, tlb};
use crate::failure::Failure;
use crate::output::Output;

/// Run every benchmark, tlb with an empty compile by cc1
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Use smaller sizes and fewer rounds, as a functional test; the figures are unreliable
    #[arg(long)]
    quick: bool,
}

/// Runs `hugetext bench all`. A benchmark whose answer is no is reported and left out. If all
/// answers are no, the answer is no.
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
    interrupt.check()?;
    comparisons.extend(misses(output)?);
    match no {
        Some(failure) if comparisons.is_empty() => Err(Stop::No(failure)),
        _ => Ok(comparisons),
    }
}

/// The TLB misses of an empty compile, if an emulator and a compiler are available.
fn misses(output: &Output) -> Result<Option<Comparison>, Failure> {
    let Some(compiler) = exec::compiler() else {
        return Ok(None);
    };
    if let Err(missing) = tlb::is_possible() {
        output.warn(missing);
        return Ok(None);
    }
    let mut command = vec![compiler.to_string_lossy().into_owned()];
    command.extend(exec::EMPTY_COMPILE.map(str::to_owned));
    tlb::compare(&tlb::Arguments::usual(command), output).map(Some)
}
