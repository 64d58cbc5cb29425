//! The `hugetext` command: program text on huge pages.

#![warn(clippy::match_bool)]

mod amount;
mod auto;
mod bench;
mod check;
mod command;
mod csv;
mod documents;
mod failure;
mod fix;
mod fleet;
mod generate;
mod keep;
mod learn;
mod locality;
mod output;
mod path;
mod promote;
mod report;
mod run;
mod run_directory;
mod scan;
mod schema;
mod size;
mod stat;
mod store;
mod table;
mod top;
mod verdict;
mod warm;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::Failure;
use crate::output::{Format, Output};
use crate::verdict::Verdict;

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
    Auto(auto::Arguments),
    Top(top::Arguments),
    Inventory(fleet::Inventory),
    Nri(fleet::Nri),
    Schema(schema::Arguments),
}

impl Mode {
    /// Whether the command executes a program, which would inherit the signals that are ignored
    /// here.
    fn starts_commands(&self) -> bool {
        matches!(
            self,
            Mode::Run(_) | Mode::Learn(_) | Mode::Bench(_) | Mode::Inventory(_) | Mode::Nri(_)
        )
    }

    /// Whether its result has rows.
    fn has_rows(&self) -> bool {
        match self {
            Mode::Top(_)
            | Mode::Warm(_)
            | Mode::Learn(_)
            | Mode::Stat(_)
            | Mode::Promote(_)
            | Mode::Bench(_) => true,
            Mode::Check(arguments) => arguments.has_rows(),
            Mode::Run(arguments) => arguments.has_rows(),
            Mode::Keep(arguments) => arguments.has_rows(),
            Mode::Store(arguments) => arguments.has_rows(),
            Mode::Auto(arguments) => arguments.has_rows(),
            Mode::Inventory(_)
            | Mode::Nri(_)
            | Mode::Fix(_)
            | Mode::Generate(_)
            | Mode::Report(_)
            | Mode::Schema(_) => false,
        }
    }
}

/// The command line of `run` alone.
#[derive(Debug, Parser)]
struct RunCli {
    #[command(flatten)]
    output: output::Options,
    #[command(subcommand)]
    mode: RunMode,
}

#[derive(Debug, Subcommand)]
enum RunMode {
    Run(run::Arguments),
}

impl Cli {
    /// Reads the command line of this process, or ends it with a message.
    ///
    /// `run` stands before programs that start in a millisecond, and describing all other subcommands to
    /// the parser takes a tenth of that. They are described if `run` alone does not explain the line, for
    /// the message.
    fn of_this_process() -> Cli {
        let words: Vec<OsString> = std::env::args_os().collect();
        if words.get(1).is_some_and(|word| word == "run")
            && let Ok(RunCli { output, mode }) = RunCli::try_parse_from(&words)
        {
            let RunMode::Run(arguments) = mode;
            let mode = Mode::Run(arguments);
            return Cli { output, mode };
        }
        Cli::parse_from(words)
    }
}

fn main() -> ExitCode {
    let cli = Cli::of_this_process();
    let output = Output::new(cli.output);
    if !cli.mode.starts_commands() {
        // A write beyond a file size limit then fails with an error that names the path.
        hugetext_host::ignore_file_size_signal();
    }
    let verdict = run(cli.mode, &output).unwrap_or_else(|failure| {
        output.error(&failure);
        Verdict::Failed
    });
    verdict.exit_code()
}

fn run(mode: Mode, output: &Output) -> Result<Verdict, Failure> {
    if output.format() == Format::Csv && !mode.has_rows() {
        return Err(Failure::no_rows());
    }
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
        Mode::Auto(arguments) => auto::run(&arguments, output),
        Mode::Inventory(arguments) => Err(fleet::inventory(&arguments)),
        Mode::Nri(arguments) => Err(fleet::nri(&arguments)),
        Mode::Top(arguments) => top::run(&arguments, output),
        Mode::Schema(arguments) => schema::run(&arguments, output),
    }
}
