//! `hugetext generate`: writes man pages and shell completions for packages, and JSON Schemas.

mod schema;

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
    #[arg(required_unless_present_any = ["schema", "schemas"])]
    directory: Option<PathBuf>,
    /// Print the JSON Schema of the document that a command prints with --json
    #[arg(long, value_name = "DOCUMENT", conflicts_with = "directory",
          value_parser = PossibleValuesParser::new(schema::names()))]
    schema: Option<String>,
    /// Write the JSON Schema of every document into this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["directory", "schema"])]
    schemas: Option<PathBuf>,
}

/// Runs `hugetext generate`.
pub(crate) fn run(
    arguments: &Arguments,
    command: Command,
    output: &Output,
) -> Result<Verdict, Failure> {
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
