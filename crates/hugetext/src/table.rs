//! Formats tables and figures as text.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::BinaryBytes;

use crate::path::escaped;

/// A table of right-aligned figures; the columns numbered in `names` are left-aligned.
pub(crate) fn figures(header: &[&str], names: &[usize], rows: Vec<Vec<String>>) -> String {
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

/// Bytes for display: `19.8 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    BinaryBytes(value).to_string().replace(".00 ", " ")
}

/// A share in percent, without decimals; `-` if the whole is zero.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}%", 100.0 * part as f64 / whole as f64)
    }
}

/// A count with its noun: `1 window`, `13 windows`.
pub(crate) fn count<N: Copy + PartialEq + From<u8> + fmt::Display>(
    number: N,
    thing: &str,
) -> String {
    let plural = match thing.ends_with('s') {
        true => "es",
        false => "s",
    };
    match number == N::from(1) {
        true => format!("{number} {thing}"),
        false => format!("{number} {thing}{plural}"),
    }
}

/// A large number for display: `13,087`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(count(0_usize, "window"), "0 windows");
        assert_eq!(count(1_u64, "window"), "1 window");
        assert_eq!(count(2_u32, "process"), "2 processes");
    }
}
