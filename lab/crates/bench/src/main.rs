//! `hugetext-bench`: the benchmarks of the laboratory, which `hugetext bench` finds beside itself or in PATH. They
//! measure what kernels and processors do for text; those of the command itself measure what a user gains.

mod all;
mod arguments;
mod calls;
mod document;
mod mprotect;
mod numa;
mod rmap;
mod show_tlb;
mod stub_files;
mod syscalls;
mod tlb;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hugetext_answer::failure::Failure;
use hugetext_answer::output::{Options, Output, command_line_as};
use hugetext_answer::verdict::Verdict;
use hugetext_answer::{BenchProgress, answer_bench};
use hugetext_bench::Interrupt;

use crate::all::bench_all;
use crate::arguments::{
    AllArguments, CallArguments, MprotectArguments, NumaArguments, RmapArguments, SyscallArguments,
    TlbArguments,
};
use crate::calls::{CallKind, bench_calls};
use crate::document::{COMMAND, TlbDocument};
use crate::mprotect::bench_mprotect;
use crate::numa::bench_numa;
use crate::rmap::bench_rmap;
use crate::syscalls::bench_syscalls;
use crate::tlb::{TlbReport, bench_tlb};

/// Measure what kernels and processors do for program text
#[derive(Debug, Parser)]
#[command(name = "hugetext-bench", bin_name = COMMAND, version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    output: Options,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Time first calls into each page of a big file, which pay for page faults
    Cold(CallArguments),
    /// Time random calls into a big file, which pay for page walks and TLB misses
    Random(CallArguments),
    Mprotect(MprotectArguments),
    Numa(NumaArguments),
    Rmap(RmapArguments),
    Syscalls(SyscallArguments),
    Tlb(TlbArguments),
    All(AllArguments),
}

fn main() -> ExitCode {
    let cli: Cli = command_line_as();
    let verbose = matches!(&cli.benchmark, Benchmark::Tlb(tlb) if tlb.detail.verbose);
    let output = Output::new(cli.output, verbose);
    let verdict = run(&cli.benchmark, &output).unwrap_or_else(|failure| {
        output.error(&failure);
        Verdict::Failed
    });
    verdict.exit_code()
}

fn run(benchmark: &Benchmark, output: &Output) -> Result<Verdict, Failure> {
    let observer = &BenchProgress::new(output);
    if let Benchmark::Tlb(arguments) = benchmark {
        // This one compares layouts, not sides, so its report is separate.
        let report = bench_tlb(&arguments.settings(), observer)?;
        return print_tlb(report, output);
    }
    let stop = &Interrupt::watch()?;
    let outcome = match benchmark {
        Benchmark::Cold(arguments) => {
            bench_calls(&arguments.settings(), &[CallKind::Cold], stop, observer)
        }
        Benchmark::Random(arguments) => {
            bench_calls(&arguments.settings(), &[CallKind::Random], stop, observer)
        }
        Benchmark::Mprotect(arguments) => bench_mprotect(&arguments.settings(), stop, observer),
        Benchmark::Numa(arguments) => bench_numa(&arguments.settings(), stop, observer),
        Benchmark::Rmap(arguments) => bench_rmap(&arguments.settings(), stop, observer),
        Benchmark::Syscalls(arguments) => bench_syscalls(&arguments.settings(), stop, observer),
        Benchmark::All(arguments) => bench_all(arguments.quick, stop, observer),
        Benchmark::Tlb(_) => Ok(Vec::new()),
    };
    answer_bench(outcome, stop, COMMAND, output)
}

fn print_tlb(report: TlbReport, output: &Output) -> Result<Verdict, Failure> {
    let document = TlbDocument::of(report);
    let shows = |document: &TlbDocument| show_tlb::text(&document.report, output.verbose());
    output.result("bench tlb", &document, shows)?;
    Ok(Verdict::Done)
}
