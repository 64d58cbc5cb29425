//! `hugetext bench`: what huge text is worth, measured on this machine.

mod calls;
mod comparison;
mod exec;
mod mprotect;
mod rounds;
mod show;
mod stats;
mod text_cache;
mod tlb;

use clap::{Args, Subcommand};
use hugetext_host::Machine;
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use calls::Kind;
use comparison::Comparison;

/// Measure what program text on huge pages is worth
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Exec(exec::Arguments),
    /// First calls into each page of a big file: what page faults cost
    Cold(calls::Arguments),
    /// Random calls into a big file: what page walks and TLB misses cost
    Random(calls::Arguments),
    Mprotect(mprotect::Arguments),
    Tlb(tlb::Arguments),
}

/// The result of benchmarks that compare sides.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    benchmarks: Vec<Comparison>,
}

/// Why there is no result.
#[derive(Debug)]
enum Stop {
    /// The machine does not allow the comparison: the answer is no.
    No(Failure),
    /// An error.
    Error(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Error(failure)
    }
}

/// Answers `hugetext bench`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let outcome = match &arguments.benchmark {
        Benchmark::Exec(arguments) => exec::run(arguments, output),
        Benchmark::Cold(arguments) => calls::run(arguments, &[Kind::Cold], output),
        Benchmark::Random(arguments) => calls::run(arguments, &[Kind::Random], output),
        Benchmark::Mprotect(arguments) => mprotect::run(arguments, output),
        // It compares layouts, not sides, and has a report of its own.
        Benchmark::Tlb(arguments) => return tlb::run(arguments, output),
    };
    match outcome {
        Ok(benchmarks) => {
            let report = Report {
                machine: Machine::this(),
                benchmarks,
            };
            output.result("bench", &report, show::report)?;
            Ok(Verdict::Done)
        }
        Err(Stop::No(failure)) => {
            output.error(&failure);
            Ok(Verdict::No)
        }
        Err(Stop::Error(failure)) => Err(failure),
    }
}
