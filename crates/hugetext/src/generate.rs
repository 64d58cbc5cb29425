//! `hugetext generate`: writes man pages and shell completions for packages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use crate::failure::Failure;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory, created if missing; existing files are overwritten
    directory: PathBuf,
}

/// Writes the pages and completions of the whole command line.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<Verdict, Failure> {
    let directory = &arguments.directory;
    let failed = |error| Failure::io(directory, &error);
    fs::create_dir_all(directory).map_err(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "hugetext", directory).map_err(failed)?;
    }
    clap_mangen::generate_to(command, directory).map_err(failed)?;
    // clap makes `help` pages for every subcommand too; they would repeat the other pages.
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().contains("-help") {
            fs::remove_file(path).map_err(failed)?;
        }
    }
    Ok(Verdict::Done)
}
