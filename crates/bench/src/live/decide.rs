//! When enough was measured. Pure.
//!
//! A pair is one period of each side, next to each other in time. After 16 pairs, and then each time
//! their number has doubled, the interval of the median ratio is looked at. The looks share the chance
//! of a false answer (Bonferroni), so that looking early does not raise it.

use crate::stats::{Interval, RatioSpread};

/// The chance that a difference is found where there is none.
const FALSE_ANSWERS: f64 = 0.05;
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
        let Some(interval) = Interval::of(ratios, self.confidence()) else {
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

    /// What this plan finds, if the ratios of pairs spread like `pilot`, whose sides were the same. `None` if the service
    /// used no processor time, or with fewer than three ratios.
    pub(crate) fn expects(self, pilot: &[f64]) -> Option<Expectation> {
        let spread = RatioSpread::of(pilot)?;
        let detectable = spread.detectable(self.pairs, self.confidence());
        Some(if detectable <= LARGEST_TOLD {
            Expectation::Finds(detectable)
        } else {
            Expectation::TooFew(spread.rounds_for(LARGEST_TOLD, self.confidence()))
        })
    }
}

/// A larger difference than this is no answer to anybody's question.
pub(crate) const LARGEST_TOLD: f64 = 0.05;

/// What a plan finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Expectation {
    /// The smallest difference that it finds in four of five measurements, as a share of the first side.
    Finds(f64),
    /// Nothing that matters: so many pairs find a difference of [`LARGEST_TOLD`].
    TooFew(u32),
}

#[cfg(test)]
mod tests {
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
    fn a_plan_says_what_it_finds_and_never_an_absurd_share() {
        let pilot = [0.99, 1.0, 1.01, 1.02, 0.98];
        let found = PLAN.expects(&pilot).unwrap();
        assert!(
            matches!(found, Expectation::Finds(share) if share < 0.02),
            "{found:?}"
        );
        // Pairs that differ by the factor of six.
        let wild = [0.4, 1.0, 2.4, 0.9, 1.6];
        let few = Plan { pairs: 8, ..PLAN };
        let found = few.expects(&wild).unwrap();
        assert!(
            matches!(found, Expectation::TooFew(pairs) if pairs > 1000),
            "{found:?}"
        );
        assert_eq!(PLAN.expects(&pilot[..2]), None);
    }
}
