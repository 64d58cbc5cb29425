//! The result of every benchmark: measures of several sides. The others are compared with the first
//! side, round by round.

use serde::{Deserialize, Serialize};

use super::stats::Estimate;

/// One benchmark's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Its name on the command line.
    pub(crate) benchmark: String,
    /// What was measured, in one line.
    pub(crate) title: String,
    /// The description of each side, with the facts that verify its state.
    pub(crate) sides: Vec<Side>,
    pub(crate) measures: Vec<Measure>,
    /// Facts that the reader needs to judge the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// One of the states compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    /// The verified facts of it.
    pub(crate) state: String,
}

/// One quantity.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    /// One entry for each side, in the order of the sides.
    pub(crate) values: Vec<Value>,
}

/// A quantity of one side, estimated from its rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Value {
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    /// This side over the first one: the median of the ratio in each round. It may differ from the
    /// ratio of the medians. Absent for the first side, and where the first side is zero in a
    /// round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<Estimate>,
    /// The value of each round.
    pub(crate) rounds: Vec<f64>,
}

/// The unit of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    Seconds,
    Count,
    Bytes,
    PerSecond,
    /// A factor.
    Factor,
    /// Per thousand instructions.
    PerThousand,
}

impl Measure {
    /// A measure from the values of each side, one per round; `None` if a side has no value.
    pub(crate) fn new(
        name: impl Into<String>,
        unit: Unit,
        sides: Vec<Vec<f64>>,
    ) -> Option<Measure> {
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
    use crate::bench::stats::Interval;

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
