//! When enough was measured. Pure.
//!
//! A pair is one period of each side, next to each other in time. After 16 pairs, and then each time
//! their number has doubled, the interval of the median ratio is looked at. The looks share the chance
//! of a false answer (Bonferroni), so that looking early does not raise it. The interval is the exact
//! one of a median, from the sign test: it assumes nothing of how ratios are distributed.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

use crate::stats::{Interval, median};

/// The chance that a difference is found where there is none.
const FALSE_ANSWERS: f64 = 0.05;
/// The chance with which a difference of the detectable size is found.
const POWER: f64 = 0.8;
/// Pairs before the first look. Fewer hold no interval at the confidence of a look.
pub(crate) const FIRST_LOOK: u32 = 16;

/// What the pairs say about a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decision {
    /// The interval lies below 1.
    Less(Interval),
    /// The interval lies above 1.
    More(Interval),
    /// The interval holds 1 and nothing further from it than the difference that matters.
    Same(Interval),
    /// The interval is too wide.
    Open,
}

/// The plan of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// The most pairs.
    pub(crate) pairs: u32,
    /// The difference that matters, as a share: 0.01 is one percent.
    pub(crate) matters: f64,
}

impl Plan {
    /// After how many pairs the figures are looked at.
    pub(crate) fn looks(self) -> Vec<u32> {
        let doubled = std::iter::successors(Some(FIRST_LOOK), |pairs| pairs.checked_mul(2));
        let mut looks: Vec<u32> = doubled.take_while(|pairs| *pairs < self.pairs).collect();
        looks.push(self.pairs);
        looks
    }

    /// The confidence of the interval at each look.
    pub(crate) fn confidence(self) -> f64 {
        1.0 - FALSE_ANSWERS / self.looks().len() as f64
    }

    /// What `ratios` say, one of each pair.
    pub(crate) fn decide(self, ratios: &[f64]) -> Decision {
        let Some(interval) = median_interval(ratios, self.confidence()) else {
            return Decision::Open;
        };
        if interval.high < 1.0 {
            Decision::Less(interval)
        } else if interval.low > 1.0 {
            Decision::More(interval)
        } else if interval.low > 1.0 - self.matters && interval.high < 1.0 + self.matters {
            Decision::Same(interval)
        } else {
            Decision::Open
        }
    }

    /// The smallest difference that this plan finds in four of five measurements, as a share of the
    /// first side, if the ratios of pairs spread like `pilot`, whose sides were the same. `None` with
    /// fewer than three ratios.
    pub(crate) fn detectable(self, pilot: &[f64]) -> Option<f64> {
        if pilot.len() < 3 {
            return None;
        }
        let logs: Vec<f64> = pilot.iter().map(|ratio| ratio.ln()).collect();
        let middle = median(logs.clone());
        let off = logs.iter().map(|log| (log - middle).abs()).collect();
        // Of normally distributed values, the median distance from the median is 0.6745 sigma.
        let sigma = median(off) / 0.6745;
        let normal = Normal::standard();
        let tail = (1.0 - self.confidence()) / 2.0;
        let distance = normal.inverse_cdf(1.0 - tail) + normal.inverse_cdf(POWER);
        // The median of n values spreads sqrt(pi/2) times as much as their mean.
        let spread = sigma * (std::f64::consts::FRAC_PI_2 / f64::from(self.pairs)).sqrt();
        Some((distance * spread).exp_m1())
    }
}

/// The interval that holds the median of the distribution of `values` with at least `confidence`: of
/// the values in order, those as many places from either end as the binomial distribution of signs
/// permits. `None` if even the extremes do not hold it.
fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAN: Plan = Plan {
        pairs: 128,
        matters: 0.01,
    };

    #[test]
    fn looks_double_and_share_the_chance_of_a_false_answer() {
        assert_eq!(PLAN.looks(), [16, 32, 64, 128]);
        assert!((PLAN.confidence() - 0.9875).abs() < 1e-12);
        let short = Plan { pairs: 8, ..PLAN };
        assert_eq!(short.looks(), [8]);
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // The table of the sign test: of 16 values, the 4th and the 13th hold the median in 97.9 %.
        let values: Vec<f64> = (1..=16).map(f64::from).collect();
        let interval = median_interval(&values, 0.978).unwrap();
        assert_eq!((interval.low, interval.high), (4.0, 13.0));
        assert_eq!(median_interval(&values[..5], 0.99), None);
        assert_eq!(median_interval(&[], 0.5), None);
    }

    #[test]
    fn a_clear_difference_is_decided_and_noise_is_not() {
        let less: Vec<f64> = (0..16).map(|n| 0.95 + f64::from(n) * 0.001).collect();
        assert!(matches!(PLAN.decide(&less), Decision::Less(_)));
        let more: Vec<f64> = less.iter().map(|ratio| 1.0 / ratio).collect();
        assert!(matches!(PLAN.decide(&more), Decision::More(_)));
        let noise: Vec<f64> = (0..16).map(|n| 0.9 + f64::from(n) * 0.0125).collect();
        assert_eq!(PLAN.decide(&noise), Decision::Open);
        let same: Vec<f64> = (0..16).map(|n| 0.9985 + f64::from(n) * 0.0002).collect();
        assert!(matches!(PLAN.decide(&same), Decision::Same(_)));
    }

    #[test]
    fn noise_without_a_difference_is_rarely_taken_for_one() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut wrong = 0;
        for _ in 0..400 {
            let ratios: Vec<f64> = (0..PLAN.pairs).map(|_| 0.8 + random.f64() * 0.4).collect();
            let looks = PLAN.looks();
            let decided = |look: &u32| PLAN.decide(&ratios[..*look as usize]);
            let is_wrong = |look| matches!(decided(look), Decision::Less(_) | Decision::More(_));
            wrong += u32::from(looks.iter().any(is_wrong));
        }
        assert!(wrong <= 20, "{wrong} of 400");
    }

    #[test]
    fn more_noise_or_fewer_pairs_hide_larger_differences() {
        let pilot = [0.99, 1.0, 1.01, 1.02, 0.98];
        let fine = PLAN.detectable(&pilot).unwrap();
        assert!((0.004..0.02).contains(&fine), "{fine}");
        let few = Plan { pairs: 16, ..PLAN };
        assert!(few.detectable(&pilot).unwrap() > fine);
        let wide = pilot.map(|ratio| ratio * ratio * ratio);
        assert!(PLAN.detectable(&wide).unwrap() > fine);
        assert_eq!(PLAN.detectable(&pilot[..2]), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_of_the_sample(
            values in prop::collection::vec(0.1f64..10.0, 8..80),
        ) {
            let interval = median_interval(&values, 0.95).unwrap();
            let middle = median(values);
            prop_assert!(interval.low <= middle && middle <= interval.high);
        }
    }
}
