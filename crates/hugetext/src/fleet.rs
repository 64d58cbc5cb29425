//! `hugetext inventory` and `hugetext nri`: hand over to programs of their own, which not every machine has.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;

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
    hand_over("inventory", &arguments.handed)
}

/// Executes hugetext-nri in place of this program. Returns only if that fails.
pub(crate) fn nri(arguments: &Nri) -> Failure {
    hand_over("nri", &arguments.handed)
}

fn hand_over(name: &str, handed: &Handed) -> Failure {
    let program = format!("hugetext-{name}");
    let error = Command::new(beside(&program))
        .args(&handed.arguments)
        .exec();
    if error.kind() == io::ErrorKind::NotFound {
        let remedy =
            format!("install it beside this command: cargo install --locked --path fleet/{name}");
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
