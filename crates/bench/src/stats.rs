//! Medians and their bootstrap intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, OrderStatistics};

/// Number of resamples for an interval.
const RESAMPLES: usize = 4000;
/// The share of resampled medians that an interval holds, in percent.
pub const CONFIDENCE: usize = 95;
/// Every interval uses the same resamples, so that the same figures give the same interval.
const SEED: u64 = 0x7465_7874;

/// The minimum number of rounds for an interval. All of five rounds hold the median in
/// 1 - 2/2^5 = 93.75 % of samples, so no part of them can hold it in 95 %.
pub const LEAST_ROUNDS: usize = 6;

/// The median of a sample, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Absent with fewer than [`LEAST_ROUNDS`] rounds.
    #[serde(flatten)]
    pub interval: Option<Interval>,
}

/// The bootstrap percentile interval of a median (Efron 1979): the rounds are drawn anew, with
/// replacement, and the middle 95 % of their medians is the interval.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// The estimate from one value per round; `None` if there is no round.
    pub(crate) fn of(rounds: &[f64]) -> Option<Estimate> {
        if rounds.is_empty() {
            return None;
        }
        Some(Estimate {
            median: median(rounds.to_vec()),
            interval: (rounds.len() >= LEAST_ROUNDS).then(|| Interval::of(rounds)),
        })
    }
}

impl Interval {
    fn of(rounds: &[f64]) -> Interval {
        let mut random = fastrand::Rng::with_seed(SEED);
        let medians = (0..RESAMPLES).map(|_| {
            let draw = |_| random.choice(rounds).copied().unwrap_or_default();
            median((0..rounds.len()).map(draw).collect())
        });
        let mut medians = Data::new(medians.collect::<Vec<f64>>());
        let outside = (100 - CONFIDENCE) as f64 / 200.0;
        Interval {
            low: medians.quantile(outside),
            high: medians.quantile(1.0 - outside),
        }
    }
}

/// The middle value, or the mean of the two middle values.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    Data::new(values).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_ignores_an_outlier() {
        let rounds = [7.3, 7.4, 7.35, 7.31, 7.38, 7.36, 7.33, 95.0];
        let estimate = Estimate::of(&rounds).unwrap();
        let Interval { low, high } = estimate.interval.unwrap();
        assert!(low <= estimate.median && estimate.median <= high);
        assert!((estimate.median - 7.355).abs() < 1e-9);
        assert!(low >= 7.3 && high < 8.0);
        assert_eq!(Estimate::of(&rounds), Some(estimate), "the same every time");
    }

    #[test]
    fn few_rounds_tell_too_little_of_the_spread() {
        let estimate = Estimate::of(&[2.0; LEAST_ROUNDS - 1]).unwrap();
        assert_eq!((estimate.median, estimate.interval), (2.0, None));
        assert!(
            Estimate::of(&[2.0; LEAST_ROUNDS])
                .unwrap()
                .interval
                .is_some()
        );
        assert_eq!(Estimate::of(&[]), None);
        let document = serde_json::to_value(estimate).unwrap();
        assert_eq!(document, serde_json::json!({ "median": 2.0 }));
        let read: Estimate = serde_json::from_value(document).unwrap();
        assert_eq!(read, estimate);
    }
}
