//! `hugetext bench`: measures on this machine what huge pages for text are worth.

mod arguments;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;

use clap::{Args, Subcommand};
use hugetext_answer::{BenchProgress, answer_bench};
use hugetext_bench::{Interrupt, bench_exec, bench_live, bench_work};
use hugetext_host::limit_listing;

use crate::external::become_program;
use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;
use arguments::{ExecArguments, LiveArguments, WorkArguments};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
#[command(after_help = LABORATORY)]
enum Benchmark {
    Exec(ExecArguments),
    Live(LiveArguments),
    Work(WorkArguments),
    #[command(external_subcommand)]
    Laboratory(Vec<OsString>),
}

/// The benchmarks of hugetext-bench. The help leaves out `syscalls`: `hugetext host` measures the same for users.
const FROM_LABORATORY: [&str; 8] = [
    "all", "cold", "mprotect", "numa", "random", "rmap", "syscalls", "tlb",
];

const LABORATORY: &str = "hugetext-bench, which lies beside this command or in PATH, has more: \
                          all, cold, mprotect, numa, random, rmap, tlb.";

/// Runs `hugetext bench`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    match &arguments.benchmark {
        Benchmark::Laboratory(words) => Err(from_laboratory(words, output)),
        own => measured(own, output),
    }
}

/// Executes hugetext-bench in place of this program. Returns only if that fails.
fn from_laboratory(words: &[OsString], output: &Output) -> Failure {
    let options = output.words().map(OsString::from);
    let arguments: Vec<OsString> = options.chain(words.iter().cloned()).collect();
    let error = become_program(OsStr::new("bench"), &arguments);
    if error.kind() != ErrorKind::NotFound {
        return Failure::new("hugetext-bench", error);
    }
    let name = words.first().map(|name| name.to_string_lossy());
    match name {
        Some(name) if !FROM_LABORATORY.contains(&&*name) => {
            let failure = Failure::new(format_args!("bench {name}"), "no such benchmark");
            failure.remedy("`hugetext bench --help` lists them")
        }
        _ => {
            let remedy =
                "install it beside this command: cargo install --locked --path lab/crates/bench";
            Failure::new("hugetext-bench", "not installed").remedy(remedy)
        }
    }
}

/// Measures what this command measures by itself.
fn measured(benchmark: &Benchmark, output: &Output) -> Result<Verdict, Failure> {
    let observer = &BenchProgress::new(output);
    let stop = &Interrupt::watch()?;
    let outcome = match benchmark {
        Benchmark::Exec(arguments) => bench_exec(&arguments.settings(), stop, observer),
        Benchmark::Live(arguments) => {
            limit_listing();
            bench_live(&arguments.settings()?, stop, observer)
        }
        Benchmark::Work(arguments) => bench_work(&arguments.settings(), stop, observer),
        Benchmark::Laboratory(_) => Ok(Vec::new()),
    };
    answer_bench(outcome, stop, "hugetext", output)
}
