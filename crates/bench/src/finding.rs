//! What the rounds say about one side against another. Pure.

use crate::comparison::{Comparison, Measure, Side, Value};
use crate::exec::names::AS_FOUND;
use crate::stats::{Interval, RatioSpread, SURE};

/// What the rounds say about one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// It has less than the first side: the interval of the ratio lies below 1.
    Less(Interval),
    /// It has more: the interval lies above 1.
    More(Interval),
    /// No difference was seen.
    Unseen {
        /// A difference of this share would have been seen in four of five measurements.
        would: f64,
        /// So many rounds would show a smaller one.
        finer: Finer,
    },
    /// The rounds are too few for any difference that matters.
    TooFew(Option<Finer>),
}

/// A number of rounds, and what they show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finer {
    /// So many rounds.
    pub rounds: u32,
    /// They show a difference of this share in four of five measurements.
    pub share: f64,
}

/// Differences that are spoken of, the largest first. A larger one is no answer to anybody's question.
const SHARES: [f64; 6] = [0.1, 0.05, 0.03, 0.02, 0.01, 0.005];

impl Comparison {
    /// The side that the others are compared with in a sentence: the text as found, or else the first side.
    pub fn baseline(&self) -> usize {
        let found = |side: &Side| side.name == AS_FOUND;
        self.sides.iter().position(found).unwrap_or(0)
    }
}

impl Measure {
    /// What the rounds say about the side of index `side` against that of index `base`. `None` of the same side, and where they
    /// cannot be compared.
    pub fn finding(&self, side: usize, base: usize) -> Option<Finding> {
        let (first, own) = (self.values.get(base)?, self.values.get(side)?);
        let ratio = self.ratio(side, base)?;
        let rounds = u32::try_from(own.rounds.len()).ok()?;
        let spread = RatioSpread::of(&ratios(first, own));
        let Some(interval) = ratio.interval else {
            return Some(Finding::TooFew(spread.map(|spread| finer(spread, 0.1))));
        };
        if interval.high < 1.0 {
            return Some(Finding::Less(interval));
        }
        if interval.low > 1.0 {
            return Some(Finding::More(interval));
        }
        let spread = spread?;
        let would = spread.detectable(rounds, SURE);
        Some(if would <= SHARES[0] {
            let finer = finer(spread, would * 0.75);
            Finding::Unseen { would, finer }
        } else {
            Finding::TooFew(Some(finer(spread, SHARES[1])))
        })
    }
}

/// The rounds for the largest of the differences that are spoken of that is no larger than `share`.
fn finer(spread: RatioSpread, share: f64) -> Finer {
    let spoken = SHARES.into_iter().find(|spoken| *spoken <= share);
    let share = spoken.unwrap_or(SHARES[SHARES.len() - 1]);
    let rounds = spread.rounds_for(share, SURE);
    Finer { rounds, share }
}

fn ratios(first: &Value, own: &Value) -> Vec<f64> {
    let pairs = first.rounds.iter().zip(&own.rounds);
    pairs.map(|(first, own)| own / first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Unit;

    fn found(first: &[f64], own: &[f64]) -> Finding {
        let sides = vec![first.to_vec(), own.to_vec()];
        let measure = Measure::new("wall", Unit::Seconds, sides).unwrap();
        assert_eq!(measure.finding(0, 0), None);
        measure.finding(1, 0).unwrap()
    }

    #[test]
    fn a_difference_is_seen_in_few_rounds() {
        let first = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8];
        let own = first.map(|value| value * 0.9);
        assert!(matches!(found(&first, &own), Finding::Less(_)));
        assert!(matches!(found(&own, &first), Finding::More(_)));
    }

    #[test]
    fn what_was_not_seen_has_a_size_and_a_number_of_rounds() {
        let first = [10.0; 12];
        let own = [
            10.1, 9.9, 10.05, 9.95, 10.0, 10.1, 9.9, 10.02, 9.98, 10.0, 10.03, 9.97,
        ];
        let Finding::Unseen { would, finer } = found(&first, &own) else {
            panic!("a difference");
        };
        assert!((0.002..0.02).contains(&would), "{would}");
        assert!(finer.share < would && finer.rounds > 12, "{finer:?}");
    }

    #[test]
    fn wild_and_few_rounds_ask_for_more_of_them() {
        let first = [1.0; 8];
        let wild = [0.2, 5.0, 0.5, 2.0, 0.9, 1.1, 3.0, 0.3];
        let Finding::TooFew(Some(finer)) = found(&first, &wild) else {
            panic!("an answer");
        };
        assert!(finer.share == 0.05 && finer.rounds > 100, "{finer:?}");
        let few = found(&[1.0, 1.0, 1.0], &[0.98, 1.0, 1.01]);
        assert!(matches!(few, Finding::TooFew(Some(_))), "{few:?}");
        assert_eq!(found(&[1.0], &[0.98]), Finding::TooFew(None));
    }
}
