//! The `hugetext` command: program text on huge pages.

#![warn(clippy::match_bool)]

mod auto;
mod bench;
mod check;
mod command;
mod documents;
mod fix;
mod fleet;
mod generate;
mod keep;
mod learn;
mod locality;
mod promote;
mod report;
mod run;
mod run_directory;
mod scan;
mod schema;
mod size;
mod stat;
mod store;
mod top;
mod warm;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
pub(crate) use hugetext_answer::{amount, csv, failure, output, path, table, verdict};

use crate::failure::Failure;
use crate::output::{Format, Output};
use crate::verdict::Verdict;

/// Faster than that of musl at the start, and with threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

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

// Only the arguments of the subcommand that is used are described to the parser. Those of all together would take
// as long as the start of a small program.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Mode {
    /// Show which text can be mapped by huge leaves, now and after a fix
    Check(check::Arguments),
    /// Lay a file out so that huge leaves can map its text
    Fix(fix::Arguments),
    /// Bring the text of programs into huge folios of the page cache
    ///
    /// Text that holds no window is brought into the largest folios that its file can fill. Only root sees whether
    /// that worked.
    Warm(warm::Arguments),
    /// Run a command with its text on huge pages
    Run(run::Arguments),
    /// Run a command once and rank the programs and libraries by how often they are executed
    ///
    /// Root watches with the kernel's reports about all processes, which programs do not notice. Other
    /// users, and root in a container, watch with ptrace. Set-id programs then do not change the user,
    /// and programs that trace others (strace, gdb, LeakSanitizer) are not watched, nor the programs
    /// that they start.
    Learn(learn::Arguments),
    /// Keep programs warm across reclaim, upgrades and reboots
    Keep(keep::Arguments),
    /// Write man pages and shell completions into a directory
    #[command(hide = true)]
    Generate(generate::Arguments),
    /// Show the page sizes that map the text of running processes
    Stat(stat::Arguments),
    /// Put the text of running processes on huge pages, without a restart
    Promote(promote::Arguments),
    /// Measure what program text on huge pages is worth
    Bench(bench::Arguments),
    /// Write one HTML file about programs, processes and benchmark results
    Report(report::Arguments),
    /// List, check and remove the copies that `run` and `keep` made
    Store(store::Arguments),
    /// Find the hot text of this machine, and keep it on huge pages
    ///
    /// Without a subcommand, runs the daemon until a signal ends it. It only observes unless its
    /// configuration says mode = "act". SIGHUP makes it read its configuration again.
    Auto(auto::Arguments),
    /// Show programs by processor time, starts, text and the share of it on huge pages
    ///
    /// Every user sees their own processes, root sees all. Starts and states are those that the daemon
    /// of `hugetext auto` knows.
    Top(top::Arguments),
    /// Record the text of this machine and of its container images, as Parquet
    ///
    /// Runs hugetext-inventory, which lies beside this command or in PATH.
    Inventory(fleet::Inventory),
    /// Prepare the text of containers before they start, as a plugin of containerd
    ///
    /// Runs hugetext-nri, which lies beside this command or in PATH.
    Nri(fleet::Nri),
    /// Print the JSON Schema of the document that a command prints with --json
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

fn main() -> ExitCode {
    let cli = Cli::parse();
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
