//! Formats benchmarks as text: a table and a plot for each.

use std::fmt::Write;

use hugetext_bench::{CONFIDENCE, Comparison, Estimate, Interval, LEAST_ROUNDS, Measure};

use crate::amount::{amount, ratio};
use crate::document::BenchReport;
use crate::table::figures;

/// Columns of a plot between its smallest and largest value.
const WIDTH: usize = 50;

/// The text of a whole report.
pub(crate) fn report(report: &BenchReport) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", report.machine);
    for comparison in &report.benchmarks {
        let _ = write!(text, "\n{}", one(comparison));
    }
    if let Some(meaning) = &report.meaning {
        let _ = write!(text, "\n{meaning}");
    }
    text
}

fn one(comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}", comparison.benchmark, comparison.title);
    for side in &comparison.sides {
        let _ = writeln!(text, "  {}: {}", side.name, side.state);
    }
    let _ = writeln!(text, "\n{}", table(comparison));
    text.push_str(&legend(comparison));
    if let Some(measure) = comparison.measures.first().filter(|m| m.values.len() > 1) {
        let _ = write!(text, "\n{}", plot(comparison, measure));
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The table: two sides stand next to each other, more of them below each other.
fn table(comparison: &Comparison) -> String {
    let names: Vec<&str> = comparison
        .sides
        .iter()
        .map(|side| side.name.as_str())
        .collect();
    if names.len() > 2 {
        return long_table(comparison, &names);
    }
    let ratios = names.iter().skip(1).map(|_| "ratio");
    let header: Vec<&str> = std::iter::once("median")
        .chain(names.iter().copied())
        .chain(ratios)
        .collect();
    let rows = comparison.measures.iter().map(|measure| {
        let values = measure.values.iter();
        let own = values
            .clone()
            .map(|value| amount(value.estimate.median, measure.unit));
        std::iter::once(measure.name.clone())
            .chain(own)
            .chain(values.skip(1).map(ratio))
            .collect()
    });
    figures(&header, &[0], rows.collect())
}

fn long_table(comparison: &Comparison, names: &[&str]) -> String {
    let first = names.first().copied().unwrap_or_default();
    let against = format!("ratio to {first}");
    let rows = comparison.measures.iter().flat_map(|measure| {
        names
            .iter()
            .zip(&measure.values)
            .enumerate()
            .map(|(side, (name, value))| {
                let what = if side == 0 { measure.name.as_str() } else { "" };
                let own = amount(value.estimate.median, measure.unit);
                vec![what.to_owned(), (*name).to_owned(), own, ratio(value)]
            })
    });
    figures(&["", "side", "median", &against], &[0, 1], rows.collect())
}

const RATIO: &str =
    " ratio: the median of each round's ratio, which need not be the ratio of the medians\n";

/// The explanation of a ratio, if the table has one.
fn legend(comparison: &Comparison) -> String {
    let values = comparison.measures.iter().flat_map(|m| &m.values);
    if values.clone().any(|value| value.ratio.is_some()) {
        RATIO.to_owned()
    } else {
        String::new()
    }
}

/// Each side's rounds on one scale: `·` a round, `├─┤` the interval if known, `●` the median.
fn plot(comparison: &Comparison, measure: &Measure) -> String {
    let rounds = || measure.values.iter().flat_map(|value| &value.rounds);
    let low = rounds().copied().fold(f64::INFINITY, f64::min);
    let high = rounds().copied().fold(f64::NEG_INFINITY, f64::max);
    let place = |value: f64| {
        if high > low {
            ((value - low) / (high - low) * (WIDTH - 1) as f64).round() as usize
        } else {
            0
        }
    };
    let names = comparison.sides.iter().map(|side| side.name.as_str());
    let margin = names
        .clone()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, value) in names.zip(&measure.values) {
        let mut line = vec![' '; WIDTH];
        let mut mark = |at: usize, with: char| {
            if let Some(cell) = line.get_mut(at) {
                *cell = with;
            }
        };
        value
            .rounds
            .iter()
            .for_each(|round| mark(place(*round), '·'));
        let Estimate { median, interval } = value.estimate;
        if let Some(Interval { low, high }) = interval {
            (place(low)..=place(high)).for_each(|at| mark(at, '─'));
            mark(place(low), '├');
            mark(place(high), '┤');
        }
        mark(place(median), '●');
        let line: String = line.into_iter().collect();
        let _ = writeln!(text, "  {name:margin$}  {}", line.trim_end());
    }
    let (low, high) = (amount(low, measure.unit), amount(high, measure.unit));
    let gap = WIDTH.saturating_sub(low.chars().count() + high.chars().count());
    let _ = writeln!(text, "  {:margin$}  {low}{:gap$}{high}", "", "");
    let spread = if measure.values.iter().any(|v| v.estimate.interval.is_some()) {
        format!("├─┤ its {CONFIDENCE} % interval")
    } else {
        format!("without an interval, which needs {LEAST_ROUNDS} rounds")
    };
    let _ = writeln!(text, "  {}: · a round, ● median, {spread}", measure.name);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugetext_bench::{Side, Unit};

    #[test]
    fn a_comparison_as_text() {
        insta::assert_snapshot!(one(&comparison(2)));
    }

    #[test]
    fn few_rounds_have_no_interval() {
        insta::assert_snapshot!(one(&comparison(1)));
    }

    /// Of three rounds, each `times` times.
    fn comparison(times: usize) -> Comparison {
        let side = |name: &str| Side {
            name: name.to_owned(),
            state: "12 windows".to_owned(),
        };
        let wall = [[0.0082, 0.0083, 0.0085], [0.0073, 0.0074, 0.0075]];
        let wall = wall.map(|rounds| rounds.repeat(times)).to_vec();
        Comparison {
            benchmark: "exec".to_owned(),
            title: "cc1".to_owned(),
            sides: vec![side("small"), side("warm")],
            measures: vec![
                Measure::new("wall", Unit::Seconds, wall).unwrap(),
                Measure::new("huge", Unit::Bytes, vec![vec![0.0], vec![16777216.0]]).unwrap(),
            ],
            notes: vec!["quiet".to_owned()],
            measured: None,
        }
    }
}
