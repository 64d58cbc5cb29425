//! Which columns fit, and names that are shortened in the middle. Pure.

use super::cells::{COLUMNS, Column, cell};
use crate::documents::top::Row;

/// Blanks between columns.
pub(super) const GAP: usize = 2;
/// A name has at least so many places before another column is shown.
const LEAST_NAME: usize = 28;

/// The columns that fit into `width`, each with its own width. The name is always there and takes what is left; the others
/// are as wide as their widest cell, so that no unit is cut off. Those of the lowest rank go first.
pub(super) fn columns(rows: &[Row], width: usize) -> Vec<(Column, usize)> {
    let wide = |column: Column| {
        let cells = rows.iter().map(|row| cell(row, column).chars().count());
        cells.chain([column.title().len()]).max().unwrap_or(0)
    };
    let empty = |column: Column| {
        rows.iter()
            .all(|row| ["", "-"].contains(&&*cell(row, column)))
    };
    let mut kept: Vec<(Column, usize)> = COLUMNS
        .into_iter()
        .filter(|column| !empty(*column))
        .map(|column| (column, wide(column)))
        .collect();
    let used = |kept: &[(Column, usize)]| -> usize {
        let others = kept.iter().filter(|(column, _)| *column != Column::Name);
        others.map(|(_, width)| width + GAP).sum()
    };
    while kept.len() > 1 && used(&kept) + LEAST_NAME > width {
        let last = kept
            .iter()
            .map(|(column, _)| *column)
            .max_by_key(|column| column.rank());
        kept.retain(|(column, _)| Some(*column) != last);
    }
    let left = width.saturating_sub(used(&kept));
    for (column, width) in &mut kept {
        if *column == Column::Name {
            *width = left;
        }
    }
    kept
}

/// A path in `width` places. The directories give way first, from the middle on; a name that is longer than that
/// loses its middle.
pub(super) fn shortened(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width || width == 0 {
        return path
            .chars()
            .take(if width == 0 { 0 } else { length })
            .collect();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let name_length = name.chars().count();
    // A slash before the name, and the mark.
    if path.contains('/') && name_length + 2 <= width {
        let head: String = path.chars().take(width - name_length - 2).collect();
        return format!("{head}…/{name}");
    }
    let (head, tail) = (width / 2, width - width / 2 - 1);
    let start: String = name.chars().take(head).collect();
    let end: String = name
        .chars()
        .skip(name_length.saturating_sub(tail))
        .collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            cpu_ns: 123_456_000_000_000,
            cpu_percent: Some(1199.5),
            starts: Some(1_234_567.0),
            processes: 12_345,
            text: 1_048_575 << 10,
            huge: 1 << 30,
            state: "would be held".to_owned(),
        }
    }

    #[test]
    fn names_keep_their_end_and_lines_their_width() {
        for width in [3, 8, 20, 30, 40, 200] {
            for path in [
                "/usr/lib/gcc/x86_64-linux-gnu/14/cc1plus",
                "a",
                "/a-name-that-is-longer-than-any-column-of-this",
            ] {
                let short = shortened(path, width);
                assert!(short.chars().count() <= width, "{short}");
                assert!(
                    width < 12 || short.ends_with(&path[path.len().saturating_sub(4)..]),
                    "{short}"
                );
            }
        }
        assert_eq!(
            shortened("/usr/lib/gcc/x86_64-linux-gnu/14/cc1plus", 24),
            "/usr/lib/gcc/x8…/cc1plus"
        );
        assert_eq!(shortened("/bin/true", 9), "/bin/true");
    }

    #[test]
    fn at_any_width_all_columns_that_stay_fit() {
        let rows = [row("/usr/lib/postgresql/17/bin/postgres"), row("/bin/sh")];
        for width in 30..200 {
            let shown = columns(&rows, width);
            let sum: usize = shown.iter().map(|(_, width)| width).sum();
            assert!(sum + GAP * (shown.len() - 1) <= width, "{width}: {shown:?}");
            assert!(shown.iter().any(|(column, _)| *column == Column::Name));
        }
        let at = |width| columns(&rows, width).len();
        assert!(at(80) >= 5 && at(80) < COLUMNS.len(), "{}", at(80));
        assert_eq!(at(200), COLUMNS.len());
    }

    #[test]
    fn a_column_without_values_takes_no_room() {
        let one = Row {
            starts: None,
            state: String::new(),
            cpu_percent: None,
            ..row("/bin/sh")
        };
        let shown: Vec<Column> = columns(&[one], 80)
            .into_iter()
            .map(|(column, _)| column)
            .collect();
        assert!(!shown.contains(&Column::Starts) && !shown.contains(&Column::State));
        assert!(shown.contains(&Column::Processes));
    }
}
