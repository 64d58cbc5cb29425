//! What was seen of a file, forgotten with a half-life.

use std::time::Duration;

/// The time after which a sum counts half.
///
/// Time is the time during which somebody watched: a machine that was off for a week remembers what it
/// knew, and no clock that is set can make it forget.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct HalfLife(Duration);

impl HalfLife {
    /// The half-life of `duration`; at least one second.
    pub fn new(duration: Duration) -> HalfLife {
        HalfLife(duration.max(Duration::from_secs(1)))
    }

    /// The duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// What is left of 1 after `elapsed`: 1 at once, and 0.5 after a half-life.
    fn left_after(self, elapsed: Duration) -> f64 {
        (-elapsed.as_secs_f64() / self.0.as_secs_f64()).exp2()
    }
}

/// When something is asked of evidence, and how fast that fades.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvidenceTime {
    /// How long somebody has watched.
    pub now: Duration,
    /// The time after which what was seen counts half.
    pub half_life: HalfLife,
}

/// A sum whose parts count half after each half-life.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Decayed {
    sum: f64,
    at: Duration,
}

impl Decayed {
    /// The sum `sum` at the time `at`; 0 if `sum` is negative or not a number.
    pub fn new(sum: f64, at: Duration) -> Decayed {
        let sum = if sum.is_finite() { sum.max(0.0) } else { 0.0 };
        Decayed { sum, at }
    }

    /// The sum at a moment. A time before the last one counts as the last one.
    pub fn at(self, moment: EvidenceTime) -> f64 {
        let elapsed = moment.now.saturating_sub(self.at);
        self.sum * moment.half_life.left_after(elapsed)
    }

    /// Adds `part` at a moment.
    pub fn add(&mut self, part: f64, moment: EvidenceTime) {
        *self = Decayed::new(self.at(moment) + part, moment.now.max(self.at));
    }
}

/// What was seen of a file on behalf of one principal.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Evidence {
    /// Starts of processes that mapped its text.
    pub starts: Decayed,
    /// Seconds of processor time in its text.
    pub processor: Decayed,
}

impl Evidence {
    /// Adds what was seen of another file that turned out to be the same.
    pub fn add(&mut self, other: &Evidence, moment: EvidenceTime) {
        let starts = other.starts.at(moment);
        self.starts.add(starts, moment);
        let processor = other.processor.at(moment);
        self.processor.add(processor, moment);
    }

    /// Whether nothing of it is left that could matter: less than a hundredth of a start, and less than
    /// a hundredth of a second.
    pub fn is_forgotten(&self, moment: EvidenceTime) -> bool {
        self.starts.at(moment) < 0.01 && self.processor.at(moment) < 0.01
    }
}
