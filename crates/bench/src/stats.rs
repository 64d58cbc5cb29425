//! Medians with their exact intervals, and how many rounds show a difference of a size. Pure.
//!
//! The interval is that of the sign test: it assumes nothing of how the rounds are distributed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};
use statrs::statistics::{Data, OrderStatistics};

/// The chance that an interval holds the median of the distribution, in percent.
pub const CONFIDENCE: usize = 95;
/// The same as a share.
pub(crate) const SURE: f64 = CONFIDENCE as f64 / 100.0;
/// The chance with which a difference of the detectable size is found.
const POWER: f64 = 0.8;

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

/// The exact interval of a median, from the sign test: of the rounds in order, those as many places from either end as
/// the binomial distribution permits.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// The estimate from one value per round; `None` if there is no round.
    pub fn of(rounds: &[f64]) -> Option<Estimate> {
        if rounds.is_empty() {
            return None;
        }
        Some(Estimate {
            median: median(rounds.to_vec()),
            interval: Interval::of(rounds, SURE),
        })
    }
}

impl Interval {
    /// The interval that holds the median of the distribution of `values` with at least `confidence`. `None` if even the
    /// extremes do not hold it.
    pub(crate) fn of(values: &[f64], confidence: f64) -> Option<Interval> {
        let count = values.len() as u64;
        let signs = Binomial::new(0.5, count).ok()?;
        let tail = (1.0 - confidence) / 2.0;
        let outside = (0..count)
            .take_while(|below| signs.cdf(*below) <= tail)
            .count();
        let mut ordered = values.to_vec();
        ordered.sort_by(f64::total_cmp);
        let low = outside.checked_sub(1)?;
        let high = ordered.len().checked_sub(outside)?;
        Some(Interval {
            low: *ordered.get(low)?,
            high: *ordered.get(high)?,
        })
    }
}

/// How ratios of two sides spread from round to round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RatioSpread {
    /// The standard deviation of their logarithms.
    sigma: f64,
}

impl RatioSpread {
    /// `None` with fewer than three ratios, and if one of them is none: results come from files, too.
    pub(crate) fn of(ratios: &[f64]) -> Option<RatioSpread> {
        let is_ratio = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
        if ratios.len() < 3 || !ratios.iter().all(is_ratio) {
            return None;
        }
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let middle = median(logs.clone());
        let off = logs.iter().map(|log| (log - middle).abs()).collect();
        // Of normally distributed values, the median distance from the median is 0.6745 sigma.
        Some(RatioSpread {
            sigma: median(off) / 0.6745,
        })
    }

    /// The smallest difference that so many rounds show in four of five measurements, as a share of the first side.
    pub(crate) fn detectable(self, rounds: u32, confidence: f64) -> f64 {
        (self.distance(confidence) / f64::from(rounds).sqrt()).exp_m1()
    }

    /// How many rounds show a difference of this share in four of five measurements.
    pub(crate) fn rounds_for(self, share: f64, confidence: f64) -> u32 {
        let rounds = (self.distance(confidence) / share.ln_1p()).powi(2).ceil();
        // A cast of what is too large gives the largest number.
        (rounds as u32).max(LEAST_ROUNDS as u32)
    }

    /// The logarithm of the ratio that a single round shows.
    fn distance(self, confidence: f64) -> f64 {
        let normal = Normal::standard();
        let tail = (1.0 - confidence) / 2.0;
        let distance = normal.inverse_cdf(1.0 - tail) + normal.inverse_cdf(POWER);
        // The median of n values spreads sqrt(pi/2) times as much as their mean.
        distance * self.sigma * std::f64::consts::FRAC_PI_2.sqrt()
    }
}

/// The middle value, or the mean of the two middle values.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    Data::new(values).median()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_ignores_an_outlier() {
        let rounds = [7.3, 7.4, 7.35, 7.31, 7.38, 7.36, 7.33, 7.34, 95.0];
        let estimate = Estimate::of(&rounds).unwrap();
        let Interval { low, high } = estimate.interval.unwrap();
        assert!(low <= estimate.median && estimate.median <= high);
        assert!((estimate.median - 7.35).abs() < 1e-9);
        assert!(low >= 7.3 && high < 8.0);
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

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // The table of the sign test: of 16 values, the 4th and the 13th hold the median in 97.9 %.
        let values: Vec<f64> = (1..=16).map(f64::from).collect();
        let interval = Interval::of(&values, 0.978).unwrap();
        assert_eq!((interval.low, interval.high), (4.0, 13.0));
        assert_eq!(Interval::of(&values[..5], 0.99), None);
        assert_eq!(Interval::of(&[], 0.5), None);
        // All of six values: 1 - 2/2^6 = 96.9 %.
        let all = Interval::of(&values[..6], 0.95).unwrap();
        assert_eq!((all.low, all.high), (1.0, 6.0));
    }

    #[test]
    fn more_noise_or_fewer_rounds_hide_larger_differences() {
        let ratios = [0.99, 1.0, 1.01, 1.02, 0.98];
        let spread = RatioSpread::of(&ratios).unwrap();
        let fine = spread.detectable(128, 0.99);
        assert!((0.002..0.02).contains(&fine), "{fine}");
        assert!(spread.detectable(16, 0.99) > fine);
        let wide = RatioSpread::of(&ratios.map(|ratio| ratio * ratio * ratio)).unwrap();
        assert!(wide.detectable(128, 0.99) > fine);
        assert_eq!(RatioSpread::of(&ratios[..2]), None);
        assert_eq!(RatioSpread::of(&[1.0, 0.0, 1.0]), None);
        assert_eq!(RatioSpread::of(&[1.0, -1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_of_the_sample(
            values in prop::collection::vec(0.1f64..10.0, 8..80),
        ) {
            let interval = Interval::of(&values, 0.95).unwrap();
            let middle = median(values);
            prop_assert!(interval.low <= middle && middle <= interval.high);
        }

        /// So many rounds show a difference, and fewer do not.
        #[test]
        fn rounds_are_as_many_as_it_takes(
            ratios in prop::collection::vec(0.5f64..2.0, 3..20), share in 0.001f64..0.5,
        ) {
            let spread = RatioSpread::of(&ratios).unwrap();
            let rounds = spread.rounds_for(share, 0.95);
            prop_assert!(spread.detectable(rounds, 0.95) <= share * 1.001);
            if rounds > LEAST_ROUNDS as u32 {
                prop_assert!(spread.detectable(rounds - 1, 0.95) > share * 0.999);
            }
        }
    }
}
