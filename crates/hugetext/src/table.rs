//! Tables and figures as text.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::BinaryBytes;

/// A table of figures, which stand right; the columns numbered in `names` read left.
pub(crate) fn figures(header: &[&str], names: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if !names.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Bytes for reading: `19.8 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    BinaryBytes(value).to_string().replace(".00 ", " ")
}

/// A share in percent, without decimals; `-` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}%", 100.0 * part as f64 / whole as f64)
    }
}
