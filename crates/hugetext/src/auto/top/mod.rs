//! `hugetext auto top`: programs by starts, processor time and text, with the share on huge leaves.

mod cells;
mod keys;
mod layout;
mod rows;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use hugetext_host::limit_listing;
use ratatui::crossterm::terminal;

use crate::documents::top::{Order, Row, TopReport};
use crate::failure::Failure;
use crate::meaning::{self, Meaning, of_this_host};
use crate::output::Output;
use crate::run_directory::RunDirectory;
use crate::verdict::Verdict;
use cells::{Column, cell};
use layout::{GAP, columns, shortened};
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
    if !arguments.once && !output.is_json() {
        return view::run(&mut sample, &directory, arguments.sort);
    }
    sample.look(&directory)?;
    let report = TopReport {
        sort: arguments.sort,
        daemon: sample.daemon,
        hidden: sample.hidden,
        programs: sample.sorted(arguments.sort),
    };
    output.result("auto top", &report, |report| {
        let (titles, rows) = lines(&report.programs, width());
        let rows: Vec<String> = std::iter::once(titles).chain(rows).collect();
        format!("{}\n{}", rows.join("\n"), once_meaning(&report.programs))
    })?;
    Ok(Verdict::Done)
}

/// The columns of the terminal. A file or a pipe has room for any name.
fn width() -> usize {
    let terminal = std::io::stdout().is_terminal().then(terminal::size);
    match terminal {
        Some(Ok((columns, _))) => usize::from(columns),
        _ => 4096,
    }
}

/// The titles, and a line for each row, of at most `width` columns.
fn lines(rows: &[Row], width: usize) -> (String, Vec<String>) {
    let columns = columns(rows, width);
    let line = |text: &dyn Fn(Column) -> String| {
        let cells = columns.iter().map(|(column, width)| {
            let text = text(*column);
            match column {
                Column::Name => shortened(&text, *width),
                _ if column.is_words() => format!("{text:width$}"),
                _ => format!("{text:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
    };
    let titles = line(&|column| column.title().to_owned());
    let rows = rows.iter().map(|row| line(&|column| cell(row, column)));
    (titles, rows.collect())
}

/// What the rows mean: how much of the text of all programs is on huge pages, and the one that has most that is not.
fn once_meaning(rows: &[Row]) -> Meaning {
    let running = rows.iter().filter(|row| row.processes > 0);
    let most = running
        .clone()
        .max_by_key(|row| row.text.saturating_sub(row.huge));
    let sum = |of: fn(&Row) -> u64| {
        running
            .clone()
            .fold(0u64, |sum, row| sum.saturating_add(of(row)))
    };
    let most = most.map(|row| row.name.as_str());
    meaning::programs(
        sum(|row| row.text),
        sum(|row| row.huge),
        most,
        of_this_host(),
    )
}
