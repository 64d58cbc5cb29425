//! Benchmarks as bars from zero, with intervals and rounds. All lengths are in units of a viewBox.

use hugetext_bench::{Comparison, Measure, Unit};
use serde::Serialize;

use crate::amount::{amount, ratio};

/// Width of the bars of a plot.
const WIDTH: f64 = 1000.0;

/// A benchmark for display on the page.
#[derive(Debug, Serialize)]
pub(super) struct Benchmark {
    title: String,
    sides: Vec<(String, String)>,
    plots: Vec<Plot>,
    notes: Vec<String>,
}

/// One measure.
#[derive(Debug, Serialize)]
struct Plot {
    name: String,
    bars: Vec<Bar>,
}

/// One side of a measure.
#[derive(Debug, Serialize)]
struct Bar {
    side: String,
    /// Whether the others are compared with this one.
    first: bool,
    median: String,
    interval: String,
    ratio: String,
    /// The ratio without its interval; empty if there is none.
    times: String,
    width: f64,
    low: f64,
    high: f64,
    rounds: Vec<f64>,
}

impl Benchmark {
    pub(super) fn new(comparison: &Comparison) -> Benchmark {
        let sides = comparison.sides.iter();
        Benchmark {
            title: format!("{}: {}", comparison.benchmark, comparison.title),
            sides: sides
                .map(|side| (side.name.clone(), side.state.clone()))
                .collect(),
            plots: comparison
                .measures
                .iter()
                .map(|measure| plot(comparison, measure))
                .collect(),
            notes: comparison.notes.clone(),
        }
    }
}

fn plot(comparison: &Comparison, measure: &Measure) -> Plot {
    let values = || measure.values.iter();
    let rounds = values().flat_map(|value| value.rounds.iter().copied());
    let most = rounds.fold(0.0, f64::max);
    let place = |value: f64| {
        if most > 0.0 {
            (value / most * WIDTH * 10.0).round() / 10.0
        } else {
            0.0
        }
    };
    let text = |value: f64| amount(value, measure.unit);
    let bars = comparison.sides.iter().zip(values()).enumerate();
    let bars = bars.map(|(index, (side, value))| {
        let estimate = value.estimate;
        Bar {
            side: side.name.clone(),
            first: index == 0,
            median: text(estimate.median),
            interval: match measure.unit {
                Unit::Bytes => String::new(),
                _ => estimate.interval.map_or_else(String::new, |interval| {
                    format!("{} to {}", text(interval.low), text(interval.high))
                }),
            },
            ratio: if index == 0 {
                String::new()
            } else {
                ratio(value)
            },
            times: value
                .ratio
                .map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
            width: place(estimate.median),
            low: place(estimate.interval.map_or(0.0, |interval| interval.low)),
            high: place(estimate.interval.map_or(0.0, |interval| interval.high)),
            rounds: value.rounds.iter().map(|round| place(*round)).collect(),
        }
    });
    Plot {
        name: measure.name.clone(),
        bars: bars.collect(),
    }
}
