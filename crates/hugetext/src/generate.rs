//! `hugetext generate`: man pages and shell completions, for packages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use crate::Verdict;
use crate::failure::{Failure, plain};

/// Write man pages and shell completions into a directory
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Made if it is not there; what it holds is overwritten
    directory: PathBuf,
}

/// Answers `hugetext generate` for the whole command line.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<Verdict, Failure> {
    let directory = &arguments.directory;
    let failed = |error: std::io::Error| Failure::at(directory, plain(&error));
    fs::create_dir_all(directory).map_err(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "hugetext", directory).map_err(failed)?;
    }
    let command = command
        .disable_help_subcommand(true)
        .mut_subcommands(|below| below.disable_help_subcommand(true));
    clap_mangen::generate_to(command, directory).map_err(failed)?;
    Ok(Verdict::Done)
}
