//! What huge text of a file saves, and the coarse scale on which files are compared.

use super::evidence::{Evidence, EvidenceTime};
use crate::geometry::Leaf;

/// What a machine pays, as it was measured there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Nanoseconds of a page fault on text that is in the page cache.
    pub fault: f64,
    /// Nanoseconds to make one window huge: a folio to allocate, and a window to copy.
    pub fill: f64,
    /// What a system call costs text behind leaves, if that could be measured.
    pub system_call: Option<SystemCallCost>,
    /// The share of the processor time in text that leaves save, 0 to 1, if somebody set it.
    pub set_share: Option<f64>,
}

impl Costs {
    /// What leaves save where nobody set it: the smallest gain of real compilations in lab/results/results.md.
    const USUAL_SHARE: f64 = 0.02;

    /// These costs, or those of another measurement where they are lower: whatever else ran can only have made one higher.
    pub fn least(self, other: Costs) -> Costs {
        let system_call = match (self.system_call, other.system_call) {
            (Some(one), Some(two)) => Some(SystemCallCost(one.0.min(two.0))),
            (one, two) => one.or(two),
        };
        Costs {
            fault: self.fault.min(other.fault),
            fill: self.fill.min(other.fill),
            system_call,
            ..self
        }
    }

    /// The share of the processor time in text that leaves are expected to save, -1 to 1. It is the one that was
    /// set. Otherwise it is what programs of many system calls lose where these make text behind leaves slow, and then it is
    /// negative: nobody counts the system calls of a program.
    pub fn share(&self) -> f64 {
        let usual = match self.system_call {
            Some(cost) if cost.is_costly() => -cost.most_lost(),
            _ => Costs::USUAL_SHARE,
        };
        self.set_share.map_or(usual, |set| set.clamp(0.0, 1.0))
    }
}

/// What a system call costs text behind leaves: the share of the time of a call into each of 256 pages by which these calls
/// take longer behind it, for text that leaves map. About 0 where the TLB keeps its entries. It is a difference of times, so it
/// may be negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemCallCost(pub f64);

impl SystemCallCost {
    /// A program does about so many times as much in a page between two system calls as it is called and returns.
    const WORK_IN_A_PAGE: f64 = 10.0;
    /// With a cost above this share it loses by leaves what they save (lab/results/syscalls.md).
    const COSTLY: f64 = 0.2;

    /// Whether programs of many system calls lose by leaves what they save.
    pub fn is_costly(self) -> bool {
        self.0 > SystemCallCost::COSTLY
    }

    /// The share of its processor time that a program of many system calls loses by leaves, 0 to 1: postgres lost 8 to 15 %
    /// where the cost was 0.8 to 0.9.
    pub fn most_lost(self) -> f64 {
        (self.0 / SystemCallCost::WORK_IN_A_PAGE).clamp(0.0, 1.0)
    }

    /// The share, in parts of a thousand.
    pub fn per_mille(self) -> i64 {
        (self.0 * 1000.0) as i64
    }
}

/// What those who run a text gain if it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// Leaves map this number of windows.
    Windows(u64),
    /// The text has no window. It lies in the largest folios, so that starts map and unmap fewer of them.
    Folios,
}

/// Bytes of text that one fault maps if its pages are cached (fault_around_bytes of mm/memory.c).
const FAULT_AROUND: Leaf = Leaf::K64;

/// Time that huge text is expected to save, in nanoseconds per window over the next half-life. If things
/// go on as they did, as much is seen in the next half-life as is remembered from the past.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Worth(f64);

impl Worth {
    /// The worth of a text of which a process that starts touches the share `touched` (0 to 1), for each
    /// window of `leaf` or, without windows, for as many bytes of text.
    ///
    /// A start saves the faults of the text that it touches, less one for each window that it touches. Without
    /// windows the faults stay, and each finds one folio in place of many, which saves more than a
    /// fault costs (lab/results/folios.md). Time in text is saved, or lost, by leaves alone.
    pub fn of(
        evidence: &Evidence,
        touched: f64,
        gain: Gain,
        leaf: Leaf,
        costs: &Costs,
        moment: EvidenceTime,
    ) -> Worth {
        let windows = match gain {
            Gain::Windows(0) => return Worth(0.0),
            Gain::Windows(windows) => windows as f64,
            Gain::Folios => f64::INFINITY,
        };
        let faults = (leaf.bytes() / FAULT_AROUND.bytes()).saturating_sub(1) as f64;
        let touched = touched.clamp(0.0, 1.0);
        let starts = evidence.starts.at(moment) * faults * touched * costs.fault;
        let processor = evidence.processor.at(moment) * 1e9 * costs.share();
        Worth(starts + processor / windows)
    }

    /// The nanoseconds.
    pub fn nanoseconds(self) -> f64 {
        self.0
    }
}

impl std::ops::Add for Worth {
    type Output = Worth;

    fn add(self, other: Worth) -> Worth {
        Worth(self.0 + other.0)
    }
}

impl std::iter::Sum for Worth {
    fn sum<I: Iterator<Item = Worth>>(each: I) -> Worth {
        each.fold(Worth::default(), std::ops::Add::add)
    }
}

/// Worth over the cost of a fill, as a power of [`Level::STEP`]. At level 0 and above, a window is
/// expected to save more than its fill costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(i16);

impl Level {
    /// One level is 1.5 times the worth of the level below.
    pub const STEP: f64 = 1.5;
    /// From here on, a window is worth its fill.
    pub const WORTH_IT: Level = Level(0);
    /// Of what saves nothing.
    const NOTHING: Level = Level(i16::MIN);

    /// The level of `worth`, if it was `before`. It stays until the worth is a whole step outside of it,
    /// so that worth that changes by less than that changes nothing.
    pub fn follow(before: Option<Level>, worth: Worth, costs: &Costs) -> Level {
        let ratio = worth.0 / costs.fill.max(1.0);
        if ratio.is_nan() || ratio <= 0.0 {
            return Level::NOTHING;
        }
        // A worth that overflows is more than any machine saves.
        let exact = (ratio.ln() / Level::STEP.ln()).clamp(-1000.0, 1000.0);
        let stays = |level: &Level| {
            let level = f64::from(level.0);
            exact >= level - 1.0 && exact < level + 2.0
        };
        before.filter(stays).unwrap_or(Level(exact.floor() as i16))
    }

    /// Whether a window is expected to save more than its fill costs.
    pub fn is_worth_it(self) -> bool {
        self >= Level::WORTH_IT
    }

    /// How many times its fill a window saves, at least; 0 for what saves nothing.
    pub fn times(self) -> f64 {
        match self {
            Level::NOTHING => 0.0,
            Level(level) => Level::STEP.powi(i32::from(level)),
        }
    }
}
