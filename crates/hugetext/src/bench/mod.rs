//! `hugetext bench`: measures on this machine what huge pages for text are worth.

mod all;
mod calls;
mod comparison;
mod disk;
mod exec;
mod interrupt;
mod mprotect;
mod rmap;
mod rounds;
mod show;
mod stats;
mod text_cache;
mod tlb;

use clap::{Args, Subcommand};
use hugetext_host::Machine;
use serde::{Deserialize, Serialize};

use crate::Verdict;
use crate::failure::Failure;
use crate::output::{Output, command_line};
use calls::Kind;
pub(crate) use comparison::{Comparison, Measure, Side, Unit};
use interrupt::Interrupt;
pub(crate) use show::{amount, ratio};

/// Measure what program text on huge pages is worth
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Exec(exec::Arguments),
    /// Time first calls into each page of a big file, which pay for page faults
    Cold(calls::Arguments),
    /// Time random calls into a big file, which pay for page walks and TLB misses
    Random(calls::Arguments),
    Mprotect(mprotect::Arguments),
    Rmap(rmap::Arguments),
    Tlb(tlb::Arguments),
    All(all::Arguments),
}

/// The result of benchmarks that compare sides.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    /// The machine, in one line.
    summary: String,
    /// The command line that was run.
    invocation: String,
    benchmarks: Vec<Comparison>,
}

/// A result that was read from `--json` output.
#[derive(Debug, Deserialize)]
pub(crate) struct BenchmarkFile {
    /// The machine it was measured on, in one line.
    pub(crate) summary: String,
    /// The command line that was run.
    pub(crate) invocation: String,
    pub(crate) benchmarks: Vec<Comparison>,
}

/// Why no result exists.
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

/// Runs `hugetext bench`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if let Benchmark::Tlb(arguments) = &arguments.benchmark {
        // This one compares layouts, not sides, so its report is separate.
        return tlb::run(arguments, output);
    }
    let stop = Interrupt::watch()?;
    let outcome = match &arguments.benchmark {
        Benchmark::Exec(arguments) => exec::run(arguments, &stop, output),
        Benchmark::Cold(arguments) => calls::run(arguments, &[Kind::Cold], &stop, output),
        Benchmark::Random(arguments) => calls::run(arguments, &[Kind::Random], &stop, output),
        Benchmark::Mprotect(arguments) => mprotect::run(arguments, &stop, output),
        Benchmark::Rmap(arguments) => rmap::run(arguments, &stop, output),
        Benchmark::All(arguments) => all::run(arguments, &stop, output),
        Benchmark::Tlb(_) => Ok(Vec::new()),
    };
    match outcome {
        Ok(benchmarks) => {
            let machine = Machine::this();
            let report = Report {
                summary: machine.to_string(),
                invocation: command_line(),
                machine,
                benchmarks,
            };
            output.result("bench", &report, show::report)?;
            Ok(Verdict::Done)
        }
        Err(Stop::No(failure)) => {
            output.error(&failure);
            Ok(Verdict::No)
        }
        Err(Stop::Error(failure)) => match stop.status() {
            Some(status) => {
                output.error(&failure);
                Ok(Verdict::Status(status))
            }
            None => Err(failure),
        },
    }
}
