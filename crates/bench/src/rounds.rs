//! Rounds: every side is measured in every round, in an order that favours no side.

/// The number of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Each round measures every side.
    pub count: u32,
}

impl Rounds {
    /// The default number of rounds.
    pub fn usual(quick: bool) -> Rounds {
        Rounds {
            count: if quick { 2 } else { 12 },
        }
    }

    /// The order of `sides` in each round. Adjacent rounds run in opposite directions, and each
    /// pair begins with another side, so that a drift of the machine affects all sides equally.
    pub fn orders(self, sides: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..self.count as usize).map(move |round| {
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
        let orders: Vec<Vec<usize>> = Rounds { count: 6 }.orders(3).collect();
        for side in 0..3 {
            let first = orders.iter().filter(|order| order[0] == side).count();
            let last = orders.iter().filter(|order| order[2] == side).count();
            assert_eq!((first, last), (2, 2));
        }
    }
}
