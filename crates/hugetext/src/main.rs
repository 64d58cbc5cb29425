//! The `hugetext` command: program text on huge pages.

#![warn(clippy::match_bool)]

mod auto;
mod bench;
mod check;
mod command;
mod documents;
mod external;
mod fix;
mod generate;
mod host;
mod keep;
mod learn;
mod locality;
mod process_choice;
mod promote;
mod report;
mod run;
mod run_directory;
mod scan;
mod size;
mod stat;
mod store;
mod warm;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
pub(crate) use hugetext_answer::{amount, failure, meaning, output, path, table, verdict};

use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

/// Faster than that of musl at the start, and with threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Put program text on huge pages, and prove it.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    output: output::Options,
    #[command(subcommand)]
    mode: Mode,
}

const AFTER_HELP: &str = "\
For fleets, in programs of their own (hugetext-inventory, hugetext-nri):
  inventory  Record the text of machines and of container images, as Parquet
  nri        Prepare the text of containers before they start, as a plugin of containerd

Exit status: 0 done; 1 the answer is no (a --require not met, a program that cannot be improved); \
2 an error.";

// Only the arguments of the subcommand that is used are described to the parser. Those of all together would take
// as long as the start of a small program.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Mode {
    /// Show whether huge text is worth it on this machine, and what would change it
    Host(host::Arguments),
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
    /// Without a subcommand, runs the daemon until a signal ends it. It holds what the lists of
    /// `hugetext keep` name. Of all else it only reports what it would hold, unless its configuration says mode = "act". SIGHUP makes it read its configuration again.
    Auto(auto::Arguments),
    /// Write man pages and shell completions, or the JSON Schemas of what --json prints
    Generate(generate::Arguments),
    /// `hugetext NAME` is the program `hugetext-NAME`.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Mode {
    /// Whether the command executes a program, which would inherit the signals that are ignored
    /// here.
    fn starts_commands(&self) -> bool {
        matches!(
            self,
            Mode::Run(_) | Mode::Learn(_) | Mode::Bench(_) | Mode::Other(_)
        )
    }

    /// Whether it is asked for more detail.
    fn is_verbose(&self) -> bool {
        match self {
            Mode::Check(arguments) => arguments.detail.verbose,
            Mode::Promote(arguments) => arguments.detail.verbose,
            Mode::Run(arguments) => arguments.detail.verbose,
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let cli: Cli = output::command_line_as();
    let output = Output::new(cli.output, cli.mode.is_verbose());
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
    match mode {
        Mode::Host(arguments) => host::run(&arguments, output),
        Mode::Check(arguments) => check::run(&arguments, output),
        Mode::Fix(arguments) => fix::run(&arguments, output),
        Mode::Warm(arguments) => warm::run(&arguments, output),
        Mode::Run(arguments) => run::run(&arguments, output),
        Mode::Learn(arguments) => learn::run(&arguments, output),
        Mode::Keep(arguments) => keep::run(&arguments, output),
        Mode::Generate(arguments) => generate::run(&arguments, Cli::command(), output),
        Mode::Stat(arguments) => stat::run(&arguments, output),
        Mode::Promote(arguments) => promote::run(&arguments, output),
        Mode::Bench(arguments) => bench::run(&arguments, output),
        Mode::Report(arguments) => report::run(&arguments, output),
        Mode::Store(arguments) => store::run(&arguments, output),
        Mode::Auto(arguments) => auto::run(&arguments, output),
        Mode::Other(words) => {
            Err(external::become_command(&words).unwrap_or_else(|| unknown(&words)))
        }
    }
}

/// Ends with what the parser says of a command that nobody knows, and which one it may have meant.
fn unknown(words: &[OsString]) -> Failure {
    let mut cli = Cli::command();
    cli.build();
    let known = clap::Command::new("hugetext").disable_help_subcommand(true);
    let known = known.subcommands(cli.get_subcommands().cloned());
    let name = words.first().map_or(OsStr::new(""), OsString::as_os_str);
    known.get_matches_from([OsStr::new("hugetext"), name]);
    Failure::new(name.display(), "no command of this name")
}
