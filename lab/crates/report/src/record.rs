//! Records: lines of JSON, or one document. In a record of a page, a line `{"fact": NAME, "value": …}` is a fact of the
//! measurement, and a line `{"table": NAME, "row": [CELL, …]}` a row of a table of the page. Other lines are kept as they
//! are, for templates that make their own rows of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use minijinja::{Value, context};
use serde::Deserialize;

use crate::error::PageError;

/// What a page shows.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The lines that are neither facts nor rows.
    pub(crate) lines: Vec<Value>,
    /// Facts by their names. Of two with a name, the later one counts.
    pub(crate) facts: BTreeMap<String, Value>,
    /// The rows of tables, as Markdown has them.
    pub(crate) tables: BTreeMap<String, String>,
    /// The same rows as cells, for templates that have words for some of them.
    pub(crate) rows: BTreeMap<String, Vec<Vec<String>>>,
}

#[derive(Deserialize)]
struct FactLine {
    fact: String,
    value: serde_json::Value,
}

#[derive(Deserialize)]
struct RowLine {
    table: String,
    row: Vec<String>,
}

impl Record {
    pub(crate) fn new(lines: Vec<serde_json::Value>) -> Record {
        let mut record = Record::default();
        for line in lines {
            if let Ok(FactLine { fact, value }) = FactLine::deserialize(&line) {
                record.facts.insert(fact, Value::from_serialize(value));
            } else if let Ok(RowLine { table, row }) = RowLine::deserialize(&line) {
                let shown = record.tables.entry(table.clone()).or_default();
                if !shown.is_empty() {
                    shown.push('\n');
                }
                shown.push_str(&as_row(&row));
                let rows = record.rows.entry(table).or_default();
                rows.push(row.iter().map(|cell| escaped(cell)).collect());
            } else {
                record.lines.push(Value::from_serialize(line));
            }
        }
        record
    }
}

/// A row of a table, `| a | b |`.
pub fn as_row(row: &[String]) -> String {
    let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
    format!("| {} |", cells.join(" | "))
}

/// A bar within a cell would end it.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

/// The lines of a record.
pub(crate) fn lines(path: &Path) -> Result<Vec<serde_json::Value>, PageError> {
    let text = fs::read_to_string(path).map_err(|error| PageError::file(path, error))?;
    let parsed = text.lines().enumerate().map(|(line, text)| {
        serde_json::from_str(text).map_err(|error| PageError::Record {
            path: path.to_owned(),
            line: line + 1,
            error,
        })
    });
    parsed.collect()
}

/// A record of another page or command: lines of JSON as a list, or one document.
pub(crate) fn read(path: &Path) -> Result<Value, PageError> {
    if path
        .extension()
        .is_some_and(|extension| extension == "jsonl")
    {
        return lines(path).map(Value::from_serialize);
    }
    let text = fs::read_to_string(path).map_err(|error| PageError::file(path, error))?;
    let document: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| PageError::Record {
            path: path.to_owned(),
            line: error.line(),
            error,
        })?;
    Ok(Value::from_serialize(document))
}

/// The documents of a directory of records with their names, in the order of these.
pub(crate) fn documents(directory: &Path) -> Result<Vec<Value>, PageError> {
    let failed = |error| PageError::file(directory, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let named = paths.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(context! { name, document => read(path)? })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_rows_and_other_lines_are_told_apart() {
        let record = Record::new(vec![
            serde_json::json!({ "fact": "machine", "value": "Linux" }),
            serde_json::json!({ "table": "starts", "row": ["a|b", "1"] }),
            serde_json::json!({ "table": "starts", "row": ["c", "2"] }),
            serde_json::json!({ "kernel": "6.18" }),
        ]);
        assert_eq!(record.facts["machine"].as_str(), Some("Linux"));
        assert_eq!(record.tables["starts"], "| a\\|b | 1 |\n| c | 2 |");
        assert_eq!(record.rows["starts"], [["a\\|b", "1"], ["c", "2"]]);
        assert_eq!(record.lines.len(), 1);
    }
}
