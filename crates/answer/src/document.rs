//! What a command prints: a document, and that of benchmarks.

use hugetext_bench::{Comparison, Interval, Measure, Side, Value};
use hugetext_engine::keep::KeepList;
use hugetext_host::Machine;
use schemars::JsonSchema;
use serde::Serialize;

use crate::csv::{Columns, Rows, maybe};
use crate::output::command_line;

/// What a command prints.
pub trait Document: Serialize + JsonSchema {
    /// Its rows for `--format csv`; `None` for a result that is no list.
    fn rows(&self) -> Option<Rows> {
        None
    }
}

/// The result of benchmarks that compare sides.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BenchReport {
    /// The machine.
    pub machine: Machine,
    /// The machine, in one line.
    pub summary: String,
    /// The command line that was run.
    pub invocation: String,
    /// The comparisons.
    pub benchmarks: Vec<Comparison>,
}

impl BenchReport {
    /// Of this machine. `command` is what a user types for this program.
    pub fn of(benchmarks: Vec<Comparison>, command: &str) -> BenchReport {
        let machine = Machine::this();
        BenchReport {
            summary: machine.to_string(),
            invocation: command_line(command),
            machine,
            benchmarks,
        }
    }
}

/// A figure of one side, with what it belongs to.
struct Row<'c> {
    comparison: &'c Comparison,
    measure: &'c Measure,
    side: &'c Side,
    value: &'c Value,
}

/// One row for each measure of each side.
pub fn comparison_rows(benchmarks: &[Comparison]) -> Rows {
    let columns: &Columns<Row<'_>> = &[
        ("benchmark", |row| row.comparison.benchmark.clone()),
        ("measure", |row| row.measure.name.clone()),
        ("unit", |row| row.measure.unit.name().to_owned()),
        ("side", |row| row.side.name.clone()),
        ("rounds", |row| row.value.rounds.len().to_string()),
        ("median", |row| row.value.estimate.median.to_string()),
        ("low", |row| {
            maybe(row.value.estimate.interval.map(|found| found.low))
        }),
        ("high", |row| {
            maybe(row.value.estimate.interval.map(|found| found.high))
        }),
        ("ratio", |row| {
            maybe(row.value.ratio.map(|ratio| ratio.median))
        }),
        ("ratio_low", |row| {
            maybe(ratio_interval(row).map(|found| found.low))
        }),
        ("ratio_high", |row| {
            maybe(ratio_interval(row).map(|found| found.high))
        }),
    ];
    let mut rows = Vec::new();
    for comparison in benchmarks {
        for measure in &comparison.measures {
            let sides = comparison.sides.iter().zip(&measure.values);
            rows.extend(sides.map(|(side, value)| Row {
                comparison,
                measure,
                side,
                value,
            }));
        }
    }
    Rows::of(columns, rows)
}

fn ratio_interval(row: &Row<'_>) -> Option<Interval> {
    row.value.ratio.and_then(|ratio| ratio.interval)
}

impl Document for BenchReport {
    /// One for each measure of each side.
    fn rows(&self) -> Option<Rows> {
        Some(comparison_rows(&self.benchmarks))
    }
}

/// The document of `hugetext keep ls`.
impl Document for KeepList {
    /// One for each entry.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<(&str, &String)> = &[
            ("kind", |(kind, _)| (*kind).to_owned()),
            ("entry", |(_, entry)| (*entry).clone()),
        ];
        let of = |kind, entries| std::iter::repeat(kind).zip(entries);
        let paths = of("path", &self.paths).chain(of("package", &self.packages));
        Some(Rows::of(columns, paths.chain(of("unit", &self.units))))
    }
}
