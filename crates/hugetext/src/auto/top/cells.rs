//! The columns, and the figure of each program in them: the same in the live view and in what `--once` prints.

use crate::documents::top::Row;
use crate::table::{bytes, percent};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Cpu,
    Now,
    Starts,
    Processes,
    Text,
    Huge,
    State,
    Name,
}

/// All of them, from left to right.
pub(super) const COLUMNS: [Column; 8] = [
    Column::Cpu,
    Column::Now,
    Column::Starts,
    Column::Processes,
    Column::Text,
    Column::Huge,
    Column::State,
    Column::Name,
];

impl Column {
    pub(super) fn title(self) -> &'static str {
        match self {
            Column::Cpu => "cpu",
            Column::Now => "now",
            Column::Starts => "starts",
            Column::Processes => "procs",
            Column::Text => "text",
            Column::Huge => "huge",
            Column::State => "state",
            Column::Name => "program",
        }
    }

    /// Where room is short, the highest number goes first.
    pub(super) fn rank(self) -> u8 {
        match self {
            Column::Name => 0,
            Column::Huge => 1,
            Column::Text => 2,
            Column::Cpu => 3,
            Column::Now => 4,
            Column::State => 5,
            Column::Starts => 6,
            Column::Processes => 7,
        }
    }

    /// Whether it holds words, which begin at the left.
    pub(super) fn is_words(self) -> bool {
        matches!(self, Column::State | Column::Name)
    }
}

/// The figure of a program in a column.
pub(super) fn cell(row: &Row, column: Column) -> String {
    match column {
        Column::Cpu => time(row.cpu_ns),
        Column::Now => row
            .cpu_percent
            .map_or("-".to_owned(), |percent| format!("{percent:.1} %")),
        Column::Starts => row
            .starts
            .map_or("-".to_owned(), |starts| format!("{starts:.0}")),
        Column::Processes => row.processes.to_string(),
        Column::Text => bytes(row.text),
        Column::Huge => percent(row.huge, row.text),
        Column::State => row.state.clone(),
        Column::Name => row.name.clone(),
    }
}

/// Processor time, short.
fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    if seconds < 600.0 {
        format!("{seconds:.1} s")
    } else if seconds < 36_000.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.0} h", seconds / 3600.0)
    }
}
