//! `hugetext auto top`: programs by starts, processor time and text, with the share on huge leaves.

mod rows;
mod view;

use std::path::PathBuf;

use clap::Args;
use hugetext_host::limit_listing;

use crate::documents::top::{Order, Row, TopReport};
use crate::failure::Failure;
use crate::output::{Format, Output};
use crate::run_directory::RunDirectory;
use crate::table::{bytes, figures, percent};
use crate::verdict::Verdict;
use rows::Sample;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print once and end
    #[arg(long)]
    once: bool,
    /// What to sort by
    #[arg(long, value_enum, default_value_t = Order::Cpu)]
    sort: Order,
}

/// Runs `hugetext auto top`.
pub(super) fn run(
    arguments: &Arguments,
    place: &RunDirectory,
    output: &Output,
) -> Result<Verdict, Failure> {
    limit_listing();
    let directory: PathBuf = place.path().to_owned();
    let mut sample = Sample::default();
    if !arguments.once && output.format() == Format::Text {
        return view::run(&mut sample, &directory, arguments.sort);
    }
    sample.look(&directory)?;
    let report = TopReport {
        sort: arguments.sort,
        daemon: sample.daemon,
        hidden: sample.hidden,
        programs: sample.sorted(arguments.sort),
    };
    output.result("auto top", &report, |report| table(&report.programs))?;
    Ok(Verdict::Done)
}

/// The titles of the columns.
const TITLES: [&str; 7] = ["cpu", "starts", "procs", "text", "huge", "state", "program"];

fn cells(row: &Row) -> [String; 7] {
    [
        row.cpu_percent.map_or_else(
            || format!("{:.1} s", row.cpu_ns as f64 / 1e9),
            |percent| format!("{percent:.1} %"),
        ),
        row.starts
            .map_or("-".to_owned(), |starts| format!("{starts:.0}")),
        row.processes.to_string(),
        bytes(row.text),
        percent(row.huge, row.text),
        row.state.clone(),
        row.name.clone(),
    ]
}

fn table(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| cells(row).to_vec());
    figures(&TITLES, &[5, 6], rows.collect())
}
