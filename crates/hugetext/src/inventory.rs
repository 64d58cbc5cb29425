//! `hugetext inventory`: hands over to hugetext-inventory, which not every machine has.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;

/// The program that does it.
const PROGRAM: &str = "hugetext-inventory";

/// Write what this machine and its images have of text, as Parquet
///
/// Runs hugetext-inventory, which lies beside this command or in PATH.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Its arguments; --help prints them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARG"
    )]
    arguments: Vec<OsString>,
}

/// Becomes the program; comes back only if it cannot.
pub(crate) fn run(arguments: &Arguments) -> Failure {
    let error = Command::new(program()).args(&arguments.arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        let remedy =
            "install it beside this command: cargo install --locked --path fleet/inventory";
        return Failure::new(PROGRAM, "not installed").remedy(remedy);
    }
    Failure::new(PROGRAM, error)
}

/// The one beside this command, or else the first in PATH.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from(PROGRAM))
}
