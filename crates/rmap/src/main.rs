//! Writes docs/rmap.md from the record of measurements, docs/rmap.jsonl.

mod prediction;
mod record;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use prediction::Prediction;

/// Report the cost of exec storms, and predict it for other machines
#[derive(Parser)]
struct Args {
    /// The record, lines of JSON
    record: PathBuf,
    /// Print only the prediction, as one JSON document
    #[arg(long)]
    json: bool,
}

fn run(args: &Args) -> Result<String, String> {
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", args.record.display());
    let text = std::fs::read_to_string(&args.record).map_err(|error| about(&error))?;
    let records = record::parse(&text).map_err(|error| about(&error))?;
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
