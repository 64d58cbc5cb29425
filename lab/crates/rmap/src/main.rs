//! The records of lab/results/rmap.md and of the locks in lab/results/replicas.md, from what was measured in guests of
//! kernels without and with the sets of kernel/. Their words are in lab/reports.

mod checks;
mod counted;
mod line;
mod origin;
mod pressure;
mod record;
mod replicas;
mod starts;
mod storms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use line::Line;
use record::Record;

/// Print the record of lab/results/rmap.md: facts, and rows of tables
#[derive(Parser)]
struct Args {
    /// What lab/kernel/rmap/measure.sh recorded, lines of JSON
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

/// The lines, as JSON.
fn run(args: &Args) -> Result<Vec<String>, String> {
    let records = read(&args.record)?;
    let lines = match &args.replicas {
        Some(path) => replicas::lines(&read(path)?, &records),
        None => lines(&records),
    };
    let lines = lines.iter().map(serde_json::to_string);
    lines
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// All that the page of locks shows.
fn lines(records: &[Record]) -> Vec<Line> {
    [
        origin::lines(records),
        starts::lines(records),
        storms::lines(records),
        pressure::lines(records),
        counted::lines(records),
        checks::lines(records),
    ]
    .concat()
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(lines) => {
            for line in lines {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("hugetext-rmap: {message}");
            ExitCode::from(2)
        }
    }
}
