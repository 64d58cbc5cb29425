//! `hugetext bench`: measures on this machine what huge pages for text are worth.

mod arguments;
mod observer;
mod show;
mod show_tlb;

use clap::{Args, Subcommand};
use hugetext_bench::tlb::{TlbReport, bench_tlb};
use hugetext_bench::{
    BenchError, BenchStop, CallKind, Interrupt, bench_all, bench_calls, bench_exec, bench_live,
    bench_mprotect, bench_numa, bench_rmap, bench_syscalls, bench_work,
};
use hugetext_host::{Machine, limit_listing};

use crate::documents::bench::{BenchReport, TlbDocument};
use crate::failure::Failure;
use crate::output::{Output, command_line};
use crate::verdict::Verdict;
use arguments::{
    AllArguments, CallArguments, ExecArguments, LiveArguments, MprotectArguments, NumaArguments,
    RmapArguments, SyscallArguments, TlbArguments, WorkArguments,
};
use observer::BenchProgress;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Exec(ExecArguments),
    /// Time first calls into each page of a big file, which pay for page faults
    Cold(CallArguments),
    /// Time random calls into a big file, which pay for page walks and TLB misses
    Random(CallArguments),
    Live(LiveArguments),
    Syscalls(SyscallArguments),
    Mprotect(MprotectArguments),
    Numa(NumaArguments),
    Rmap(RmapArguments),
    Tlb(TlbArguments),
    Work(WorkArguments),
    All(AllArguments),
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        let failure = Failure::from(error.problem);
        match error.advice {
            Some(advice) => failure.remedy(advice),
            None => failure,
        }
    }
}

/// Runs `hugetext bench`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let observer = &BenchProgress::new(output);
    if let Benchmark::Tlb(arguments) = &arguments.benchmark {
        // This one compares layouts, not sides, so its report is separate.
        let report = bench_tlb(&arguments.settings(), observer)?;
        return print_tlb(report, output);
    }
    let stop = &Interrupt::watch()?;
    let outcome = match &arguments.benchmark {
        Benchmark::Exec(arguments) => bench_exec(&arguments.settings(), stop, observer),
        Benchmark::Cold(arguments) => {
            bench_calls(&arguments.settings(), &[CallKind::Cold], stop, observer)
        }
        Benchmark::Random(arguments) => {
            bench_calls(&arguments.settings(), &[CallKind::Random], stop, observer)
        }
        Benchmark::Live(arguments) => {
            limit_listing();
            bench_live(&arguments.settings(), stop, observer)
        }
        Benchmark::Syscalls(arguments) => bench_syscalls(&arguments.settings(), stop, observer),
        Benchmark::Mprotect(arguments) => bench_mprotect(&arguments.settings(), stop, observer),
        Benchmark::Numa(arguments) => bench_numa(&arguments.settings(), stop, observer),
        Benchmark::Rmap(arguments) => bench_rmap(&arguments.settings(), stop, observer),
        Benchmark::Work(arguments) => bench_work(&arguments.settings(), stop, observer),
        Benchmark::All(arguments) => bench_all(arguments.quick, stop, observer),
        Benchmark::Tlb(_) => Ok(Vec::new()),
    };
    match outcome {
        Ok(benchmarks) => {
            let machine = Machine::this();
            let report = BenchReport {
                summary: machine.to_string(),
                invocation: command_line(),
                machine,
                benchmarks,
            };
            output.result("bench", &report, show::report)?;
            Ok(Verdict::Done)
        }
        Err(BenchStop::No(error)) => {
            output.error(&error.into());
            Ok(Verdict::No)
        }
        Err(BenchStop::Error(error)) => match stop.status() {
            Some(status) => {
                output.error(&error.into());
                Ok(Verdict::Status(status))
            }
            None => Err(error.into()),
        },
    }
}

fn print_tlb(report: TlbReport, output: &Output) -> Result<Verdict, Failure> {
    let document = TlbDocument {
        summary: Machine::this().to_string(),
        invocation: command_line(),
        benchmarks: vec![report.comparison()],
        report,
    };
    let shows = |document: &TlbDocument| show_tlb::text(&document.report, output.verbose());
    output.result("bench tlb", &document, shows)?;
    Ok(Verdict::Done)
}
