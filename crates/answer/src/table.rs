//! Formats tables and figures as text.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
pub use hugetext_bench::quantity::{bytes, count, grouped, percent};

use crate::path::escaped;

/// A table of right-aligned figures; the columns numbered in `names` are left-aligned.
pub fn figures(header: &[&str], names: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    // A name with control characters must stay on one line.
    let rows = rows
        .into_iter()
        .map(|row| row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>());
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if !names.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// What a long readahead of the device, in bytes, does to the windows that loaders ask for.
pub fn fewer_by_readahead(readahead: u64) -> String {
    let readahead = bytes(readahead);
    format!(
        "fewer or none here, because the device reads {readahead} around a fault (read_ahead_kb)"
    )
}
