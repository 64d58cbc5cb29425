//! Writes docs/rmap.md from the record of measurements, docs/rmap.jsonl.

mod benchmarks;
mod counted;
mod dates;
mod kinds;
mod prediction;
mod pressure;
mod record;
mod replicas;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use prediction::Prediction;
use record::Record;

/// Report the cost of exec storms, and predict it for other machines
#[derive(Parser)]
struct Args {
    /// The record, lines of JSON
    record: PathBuf,
    /// Print only the prediction, as one JSON document
    #[arg(long)]
    json: bool,
    /// Print what lab/results/replicas.md shows of locks instead, from this record of storms with replicas
    #[arg(long, value_name = "RECORD", conflicts_with = "json")]
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
    let prediction = Prediction::new(&records);
    if args.json {
        let document = serde_json::json!({ "schema": 1, "prediction": prediction });
        return Ok(format!("{document}\n"));
    }
    Ok(report::document(&records, prediction.as_ref()))
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
