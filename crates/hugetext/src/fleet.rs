//! `hugetext inventory`, `hugetext nri` and benchmarks of the laboratory: hand over to programs of their own, which not
//! every machine has.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Inventory {
    #[command(flatten)]
    handed: Handed,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Nri {
    #[command(flatten)]
    handed: Handed,
}

#[derive(Debug, Args)]
struct Handed {
    /// Its arguments; --help prints them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARG"
    )]
    arguments: Vec<OsString>,
}

/// Executes hugetext-inventory in place of this program. Returns only if that fails.
pub(crate) fn inventory(arguments: &Inventory) -> Failure {
    hand_over("inventory", "fleet/inventory", &arguments.handed.arguments)
}

/// Executes hugetext-nri in place of this program. Returns only if that fails.
pub(crate) fn nri(arguments: &Nri) -> Failure {
    hand_over("nri", "fleet/nri", &arguments.handed.arguments)
}

/// Executes hugetext-bench in place of this program, for a benchmark of the laboratory. Returns only if that fails.
pub(crate) fn bench(output: &Output, words: &[OsString]) -> Failure {
    let options = output.words().map(OsString::from);
    let words: Vec<OsString> = options.chain(words.iter().cloned()).collect();
    hand_over("bench", "lab/crates/bench", &words)
}

/// `source` is where the program is built from.
fn hand_over(name: &str, source: &str, arguments: &[OsString]) -> Failure {
    let program = format!("hugetext-{name}");
    let error = Command::new(beside(&program)).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        let remedy =
            format!("install it beside this command: cargo install --locked --path {source}");
        return Failure::new(program, "not installed").remedy(remedy);
    }
    Failure::new(program, error)
}

/// The one beside this command, or else the first in PATH.
fn beside(program: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(program));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from(program))
}
