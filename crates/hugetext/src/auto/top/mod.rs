//! `hugetext auto top`: programs by starts, processor time and text, with the share on huge leaves.

mod cells;
mod keys;
mod layout;
mod lines;
mod rows;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use hugetext_host::limit_listing;
use ratatui::crossterm::terminal;

use crate::documents::top::{Order, TopReport};
use crate::failure::Failure;
use crate::output::Output;
use crate::run_directory::RunDirectory;
use crate::verdict::Verdict;
use lines::{lines, once_meaning};
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
