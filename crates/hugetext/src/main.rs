//! The `hugetext` command: program text on huge pages.

mod bench;
mod check;
mod failure;
mod fix;
mod generate;
mod keep;
mod learn;
mod output;
mod path;
mod program;
mod promote;
mod report;
mod run;
mod scan;
mod size;
mod stat;
mod store;
mod table;
mod vouch;
mod warm;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

/// Put program text on huge pages, and prove it.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    output: output::Options,
    #[command(subcommand)]
    mode: Mode,
}

const EXIT_CODES: &str = "\
Exit status: 0 done; 1 the answer is no (a --require not met, a program that cannot be improved); \
2 an error.";

#[derive(Debug, Subcommand)]
enum Mode {
    Check(check::Arguments),
    Fix(fix::Arguments),
    Warm(warm::Arguments),
    Run(run::Arguments),
    Learn(learn::Arguments),
    Keep(keep::Arguments),
    #[command(hide = true)]
    Generate(generate::Arguments),
    Stat(stat::Arguments),
    Promote(promote::Arguments),
    Bench(bench::Arguments),
    Report(report::Arguments),
    Store(store::Arguments),
}

impl Mode {
    /// Whether the command executes a program, which would inherit the signals that are ignored
    /// here.
    fn starts_commands(&self) -> bool {
        matches!(self, Mode::Run(_) | Mode::Learn(_) | Mode::Bench(_))
    }
}

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The requested work is done.
    Done,
    /// The answer is no.
    No,
    /// The exit status of the program that was executed.
    Status(u8),
    /// The work is done as far as possible; the errors have been printed.
    Failed,
}

impl Verdict {
    /// The worse of the two verdicts.
    fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Failed, _) | (_, Verdict::Failed) => Verdict::Failed,
            (Verdict::No, _) | (_, Verdict::No) => Verdict::No,
            _ => Verdict::Done,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.output);
    if !cli.mode.starts_commands() {
        // A write beyond a file size limit then fails with an error that names the path.
        hugetext_host::ignore_file_size_signal();
    }
    match run(cli.mode, &output) {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Ok(Verdict::Status(status)) => ExitCode::from(status),
        Ok(Verdict::Failed) => ExitCode::from(2),
        Err(failure) => {
            output.error(&failure);
            ExitCode::from(2)
        }
    }
}

fn run(mode: Mode, output: &Output) -> Result<Verdict, Failure> {
    match mode {
        Mode::Check(arguments) => check::run(&arguments, output),
        Mode::Fix(arguments) => fix::run(&arguments, output),
        Mode::Warm(arguments) => warm::run(&arguments, output),
        Mode::Run(arguments) => run::run(&arguments, output),
        Mode::Learn(arguments) => learn::run(&arguments, output),
        Mode::Keep(arguments) => keep::run(&arguments, output),
        Mode::Generate(arguments) => generate::run(&arguments, Cli::command()),
        Mode::Stat(arguments) => stat::run(&arguments, output),
        Mode::Promote(arguments) => promote::run(&arguments, output),
        Mode::Bench(arguments) => bench::run(&arguments, output),
        Mode::Report(arguments) => report::run(&arguments, output),
        Mode::Store(arguments) => store::run(&arguments, output),
    }
}
