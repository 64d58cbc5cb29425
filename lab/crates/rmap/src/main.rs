//! Writes kernel/rfc/rmap/results.md from the record of measurements, record.jsonl beside it.

mod benchmarks;
mod counted;
mod dates;
mod fold;
mod kinds;
mod pressure;
mod record;
mod replicas;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use record::Record;

/// Report the cost of exec storms
#[derive(Parser)]
struct Args {
    /// The record, lines of JSON
    record: PathBuf,
    /// Print what lab/results/replicas.md shows of locks instead, from this record of storms with replicas
    #[arg(long, value_name = "RECORD")]
    replicas: Option<PathBuf>,
}

fn read(path: &Path) -> Result<Vec<Record>, String> {
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| about(&error))?;
    record::parse(&text).map_err(|error| about(&error))
}

fn run(args: &Args) -> Result<String, String> {
    let records = read(&args.record)?;
    if let Some(path) = &args.replicas {
        return Ok(replicas::record(&read(path)?, &records));
    }
    Ok(report::document(&records))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("hugetext-rmap: {message}");
            ExitCode::from(2)
        }
    }
}
