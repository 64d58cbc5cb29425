//! Rounds: every side is measured in every round, in an order that favours no side.

use std::time::Duration;

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

/// The runs of each side in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerRound {
    /// This many.
    Runs(u32),
    /// As many as let twelve rounds of all sides end within about a minute; at least one, and at most [`PerRound::MOST`].
    Minute,
}

impl PerRound {
    /// Many runs are needed where they are short, because kernels tell user from system time by samples.
    pub const MOST: u32 = 60;

    /// The number of runs, if one takes `wall`. It does not depend on the number of rounds: how many rounds show a
    /// difference is said by the spread of rounds.
    pub(crate) fn of(self, wall: Duration, sides: usize) -> u32 {
        let one = match self {
            PerRound::Runs(runs) => return runs,
            PerRound::Minute => wall.as_secs_f64() * sides.max(1) as f64,
        };
        let each = 60.0 / f64::from(Rounds::usual(false).count);
        // A cast from a float saturates.
        ((each / one.max(1e-6)) as u32).clamp(1, PerRound::MOST)
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

    #[test]
    fn long_commands_run_once_and_short_ones_often() {
        let of =
            |milliseconds, sides| PerRound::Minute.of(Duration::from_millis(milliseconds), sides);
        assert_eq!(
            [of(0, 5), of(10, 5), of(60, 5), of(900, 5), of(60_000, 5)],
            [60, 60, 16, 1, 1]
        );
        assert_eq!([of(60, 0), of(60, 1)], [60, 60]);
        assert_eq!(PerRound::Runs(7).of(Duration::from_secs(9), 5), 7);
    }
}
