//! Lines of the record of a page, as hugetext-report reads them.

use serde::Serialize;
use serde_json::Value;

/// A line of the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// A fact of the measurement.
    Fact { fact: String, value: Value },
    /// A row of a table.
    Row { table: String, row: Vec<String> },
}

pub(crate) fn fact(name: &str, value: impl Into<Value>) -> Line {
    Line::Fact {
        fact: name.to_owned(),
        value: value.into(),
    }
}

pub(crate) fn row(table: &str, cells: impl Into<Vec<String>>) -> Line {
    Line::Row {
        table: table.to_owned(),
        row: cells.into(),
    }
}

/// How much less or more `after` is than `before`, as a cell.
pub(crate) fn change(before: f64, after: f64) -> String {
    if before == 0.0 {
        return String::new();
    }
    format!("{:+.0} %", (after / before - 1.0) * 100.0)
}

/// The rows of a table as Markdown, and the facts as `name: value`, one in a line.
#[cfg(test)]
pub(crate) fn shown(lines: &[Line]) -> String {
    let shown = lines.iter().map(|line| match line {
        Line::Fact { fact, value } => format!("{fact}: {value}\n"),
        Line::Row { row, .. } => format!("| {} |\n", row.join(" | ")),
    });
    shown.collect()
}
