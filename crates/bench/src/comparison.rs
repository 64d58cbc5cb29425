//! The result of every benchmark: measures of several sides. The others are compared with the first
//! side, round by round.

use std::path::PathBuf;

use hugetext_engine::MachineVerdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// One benchmark's result.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
pub struct Comparison {
    /// Its name on the command line.
    pub benchmark: String,
    /// What was measured, in one line.
    pub title: String,
    /// The description of each side, with the facts that verify its state.
    pub sides: Vec<Side>,
    /// What was measured, the most telling first.
    pub measures: Vec<Measure>,
    /// Facts that the reader needs to judge the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was measured, as other commands take it; absent where no other command does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// What was measured, as other commands take it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// The starts of a command.
    Command {
        /// The file whose text was brought into the states of the sides.
        #[serde(serialize_with = "hugetext_host::lossy::path")]
        #[schemars(with = "String")]
        program: PathBuf,
        /// The command and its arguments.
        words: Vec<String>,
    },
    /// Work that a benchmark brings, on this file.
    Work {
        /// The file whose text was brought into the states of the sides.
        #[serde(serialize_with = "hugetext_host::lossy::path")]
        #[schemars(with = "String")]
        program: PathBuf,
    },
    /// Processes that run, as the user named them.
    Processes {
        /// Their ids, or an option with its value.
        words: Vec<String>,
    },
}

/// Results of `hugetext bench --json`, as far as a reader of them needs it.
#[derive(Debug, Deserialize)]
pub struct BenchmarkFile {
    /// The day on which it was measured, UTC; absent in results of before it was said.
    #[serde(default)]
    pub date: Option<String>,
    /// The machine it was measured on, in one line.
    pub summary: String,
    /// The command line that was run.
    pub invocation: String,
    /// What huge text gives on that machine, as `hugetext host` found it; absent in results of before it did.
    #[serde(default)]
    pub host: Option<MachineVerdict>,
    /// The results.
    pub benchmarks: Vec<Comparison>,
}

/// One of the states compared.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// The verified facts of it.
    pub state: String,
}

/// One quantity.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// One entry for each side, in the order of the sides.
    pub values: Vec<Value>,
}

/// A quantity of one side, estimated from its rounds.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
pub struct Value {
    /// The median of the rounds.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// This side over the first one: the median of the ratio in each round. It may differ from the
    /// ratio of the medians. Absent for the first side, and where the first side is zero in a
    /// round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Estimate>,
    /// The value of each round.
    pub rounds: Vec<f64>,
}

/// The unit of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Things per second.
    PerSecond,
    /// A factor.
    Factor,
    /// Per thousand instructions.
    PerThousand,
}

impl Unit {
    /// One word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::PerSecond => "per-second",
            Unit::Factor => "factor",
            Unit::PerThousand => "per-thousand",
        }
    }
}

impl Measure {
    /// The side of index `side` over that of index `base`: the median of the ratio in each round. `None` of the same side, and
    /// where `base` is zero in a round.
    pub fn ratio(&self, side: usize, base: usize) -> Option<Estimate> {
        let (first, own) = (self.values.get(base)?, self.values.get(side)?);
        (side != base)
            .then(|| ratio(&first.rounds, &own.rounds))
            .flatten()
    }

    /// A measure from the values of each side, one per round; `None` if a side has no value.
    pub fn new(name: impl Into<String>, unit: Unit, sides: Vec<Vec<f64>>) -> Option<Measure> {
        let first = sides.first()?.clone();
        let values = sides.into_iter().enumerate().map(|(side, rounds)| {
            Some(Value {
                estimate: Estimate::of(&rounds)?,
                ratio: (side > 0).then(|| ratio(&first, &rounds)).flatten(),
                rounds,
            })
        });
        Some(Measure {
            name: name.into(),
            unit,
            values: values.collect::<Option<_>>()?,
        })
    }
}

/// `rounds` over `first`, pair by pair. `None` if a value of `first` is zero, as counts in ticks
/// can be: the remaining pairs would be a biased sample.
fn ratio(first: &[f64], rounds: &[f64]) -> Option<Estimate> {
    let pairs = first.iter().zip(rounds);
    let ratios = pairs.map(|(first, own)| (*first > 0.0).then(|| own / first));
    Estimate::of(&ratios.collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine slows down tenfold half way; the ratio stays the same.
        let sides = [10.0, 9.0].map(|time| [[time; 3], [time * 10.0; 3]].concat());
        let sides = sides.to_vec();
        let measure = Measure::new("wall", Unit::Seconds, sides).unwrap();
        assert!(measure.values[0].ratio.is_none());
        let ratio = measure.values[1].ratio.unwrap();
        let Interval { low, high } = ratio.interval.unwrap();
        assert_eq!((ratio.median, low, high), (0.9, 0.9, 0.9));
    }

    #[test]
    fn nothing_is_not_divided_by() {
        let measure = Measure::new("huge", Unit::Bytes, vec![vec![0.0], vec![4096.0]]).unwrap();
        assert!(measure.values[1].ratio.is_none());
        let ticks = vec![vec![0.0, 0.004], vec![0.004, 0.0]];
        let measure = Measure::new("user", Unit::Seconds, ticks).unwrap();
        assert!(measure.values[1].ratio.is_none());
        assert!(Measure::new("none", Unit::Count, vec![Vec::new()]).is_none());
    }
}
