//! The rows as lines, and what they mean.

use super::cells::{Column, cell};
use super::layout::{GAP, columns, shortened};
use crate::documents::top::Row;
use crate::meaning::{self, Meaning, of_this_host};

/// The titles, and a line for each row, of at most `width` columns.
pub(super) fn lines(rows: &[Row], width: usize) -> (String, Vec<String>) {
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
pub(super) fn once_meaning(rows: &[Row]) -> Meaning {
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
