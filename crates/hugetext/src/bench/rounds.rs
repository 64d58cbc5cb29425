//! Rounds: every side is measured in every round, in an order that favours none.

use clap::Args;

/// How often to measure.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Rounds {
    /// Rounds; each measures every side
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
}

impl Rounds {
    /// As many as when nothing is said.
    pub(super) fn usual(quick: bool) -> Rounds {
        Rounds {
            rounds: if quick { 2 } else { 12 },
        }
    }

    /// The order of `sides` in each round. Neighbouring rounds go opposite ways and each pair
    /// begins with another side, so that a drift of the machine falls on all alike.
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
