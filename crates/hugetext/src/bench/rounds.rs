//! Rounds: every side is measured in every round, in an order that favours no side.

use clap::Args;

/// The number of rounds.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Rounds {
    /// Number of rounds; each measures every side
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
}

impl Rounds {
    /// The default number of rounds.
    pub(super) fn usual(quick: bool) -> Rounds {
        Rounds {
            rounds: if quick { 2 } else { 12 },
        }
    }

    /// The order of `sides` in each round. Adjacent rounds run in opposite directions, and each
    /// pair begins with another side, so that a drift of the machine affects all sides equally.
    pub(crate) fn orders(self, sides: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..self.rounds as usize).map(move |round| {
            let mut order: Vec<usize> = (0..sides).collect();
            order.rotate_left((round / 2) % sides.max(1));
            if round % 2 == 1 {
                order.reverse();
            }
            order
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_comes_first_and_last_equally_often() {
        let orders: Vec<Vec<usize>> = Rounds { rounds: 6 }.orders(3).collect();
        for side in 0..3 {
            let first = orders.iter().filter(|order| order[0] == side).count();
            let last = orders.iter().filter(|order| order[2] == side).count();
            assert_eq!((first, last), (2, 2));
        }
    }
}
