//! `hugetext generate`: writes man pages and shell completions for packages, and JSON Schemas.

mod schema;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write man pages and shell completions into this directory, which is created if missing; existing files are
    /// overwritten
    #[arg(required_unless_present_any = ["schema", "schemas", "parses"])]
    directory: Option<PathBuf>,
    /// Print the JSON Schema of the document that a command prints with --json
    #[arg(long, value_name = "DOCUMENT", conflicts_with = "directory",
          value_parser = PossibleValuesParser::new(schema::names()))]
    schema: Option<String>,
    /// Write the JSON Schema of every document into this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["directory", "schema"])]
    schemas: Option<PathBuf>,
    /// Only check that this command line is one of this command, without running it
    #[arg(long, value_name = "WORD", hide = true, exclusive = true, num_args = 1.., allow_hyphen_values = true)]
    parses: Vec<OsString>,
}

/// Runs `hugetext generate`.
pub(crate) fn run(
    arguments: &Arguments,
    command: Command,
    output: &Output,
) -> Result<Verdict, Failure> {
    if !arguments.parses.is_empty() {
        return parse(command, &arguments.parses);
    }
    if let Some(name) = &arguments.schema {
        schema::print(name, output)?;
    }
    if let Some(directory) = &arguments.schemas {
        schema::write_all(directory).map_err(|error| Failure::io(directory, &error))?;
    }
    if let Some(directory) = &arguments.directory {
        pages(directory, command)?;
    }
    Ok(Verdict::Done)
}

/// Whether a command line, as documents and results name it, is one of this command.
fn parse(mut command: Command, words: &[OsString]) -> Result<Verdict, Failure> {
    let found = command.try_get_matches_from_mut(words);
    let found = found.map_err(|error| Failure::new("command line", error))?;
    let (mut known, mut matches) = (&command, &found);
    // A program of another name may stand for a command that this one does not have.
    while let Some((name, below)) = matches.subcommand() {
        let Some(one) = known.find_subcommand(name) else {
            return Ok(Verdict::No);
        };
        (known, matches) = (one, below);
    }
    Ok(Verdict::Done)
}

/// Writes the man pages and completions of the whole command line.
fn pages(directory: &Path, mut command: Command) -> Result<(), Failure> {
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
    Ok(())
}
