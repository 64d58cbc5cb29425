//! The documents of `hugetext bench`.

use super::Document;
use crate::csv::{Columns, Rows, maybe};
use hugetext_bench::tlb::TlbReport;
use hugetext_bench::{Comparison, Interval, Measure, Side, Value};
use hugetext_host::Machine;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of benchmarks that compare sides.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct BenchReport {
    pub(crate) machine: Machine,
    /// The machine, in one line.
    pub(crate) summary: String,
    /// The command line that was run.
    pub(crate) invocation: String,
    pub(crate) benchmarks: Vec<Comparison>,
}

/// The result, with the parts of it that a page of HTML shows.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TlbDocument {
    #[serde(flatten)]
    pub(crate) report: TlbReport,
    /// The machine, in one line.
    pub(crate) summary: String,
    /// The command line.
    pub(crate) invocation: String,
    pub(crate) benchmarks: Vec<Comparison>,
}

/// A figure of one side, with what it belongs to.
struct Row<'c> {
    comparison: &'c Comparison,
    measure: &'c Measure,
    side: &'c Side,
    value: &'c Value,
}

/// One row for each measure of each side.
fn rows(benchmarks: &[Comparison]) -> Rows {
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
        Some(rows(&self.benchmarks))
    }
}

impl Document for TlbDocument {
    /// As for the other benchmarks; the sides are layouts.
    fn rows(&self) -> Option<Rows> {
        Some(rows(&self.benchmarks))
    }
}
