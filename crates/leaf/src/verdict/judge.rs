//! The verdict of timed calls, and what it rests on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hold::SystemCallCost;

/// Nanoseconds of a call into text, by what maps it: the fastest passes of one block of rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// Into another base page each time, in small folios.
    pub small: f64,
    /// The same, in huge folios behind tables of base pages.
    pub tables: f64,
    /// The same, in huge folios behind leaves.
    pub leaves: f64,
    /// Into as many lines of a few pages, which the TLB holds.
    pub gathered: f64,
    /// What a system call costs text behind leaves.
    pub system_call: SystemCallCost,
}

/// The least time of misses in small folios, over the time of a call without one, that can be told from other
/// disturbances.
const LEAST_MISSES: f64 = 0.15;

impl CallTimes {
    /// How much longer a call into another page takes behind leaves than one that misses nothing, as a share of the
    /// latter: near 0 where a leaf is one entry. `None` where calls into small folios miss nothing either.
    pub fn missed(&self) -> Option<f64> {
        let more = |time: f64| (time - self.gathered) / self.gathered;
        (more(self.small) > LEAST_MISSES).then(|| more(self.leaves))
    }
}

/// What huge text gives on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Starts gain, and text that runs gains.
    WorthIt,
    /// Starts gain. A leaf is no large entry of the TLB, so text that runs gains almost nothing.
    StartsOnly,
    /// Starts gain. Programs of many system calls lose, because each call drops what leaves put into the TLB.
    Harmful,
    /// The times do not tell.
    CannotTell,
}

impl Verdict {
    /// One word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::WorthIt => "worth-it",
            Verdict::StartsOnly => "starts-only",
            Verdict::Harmful => "harmful",
            Verdict::CannotTell => "cannot-tell",
        }
    }
}

/// Why times do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// The kernel has no huge pages.
    NoHugePages,
    /// Nothing tells what huge pages the kernel has: /sys is missing, as in some containers.
    NoSys,
    /// Windows of this size are too large to try.
    LargeWindows,
    /// The kernel maps no text in memory by leaves.
    NoLeaves,
    /// The instruction that returns from a call is not known for this architecture.
    UnknownArchitecture,
    /// The kernel gives no memory for the trial.
    NoMemory,
    /// The processor is emulated, so its TLB is not that of hardware.
    Emulated,
    /// Calls into many pages take no longer than calls into few.
    NoMisses,
    /// The trials disagree, because other work disturbs them or the processor is of neither kind.
    Disagreement,
}

impl fmt::Display for Doubt {
    /// A clause that follows "because".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doubt::NoHugePages => "this kernel has no huge pages",
            Doubt::NoSys => "/sys is missing here, which tells what huge pages the kernel has",
            Doubt::LargeWindows => "its windows are too large to try",
            Doubt::NoLeaves => "the kernel maps no text in memory by leaves",
            Doubt::UnknownArchitecture => {
                "the instruction that returns from a call is not known for this processor"
            }
            Doubt::NoMemory => "there is too little memory for a trial",
            Doubt::Emulated => "the processor is emulated",
            Doubt::NoMisses => "calls into many pages take no longer here than calls into few",
            Doubt::Disagreement => "the trials disagree",
        })
    }
}

/// The lowest and the highest of several values, and the one in the middle.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Spread {
    /// Lowest.
    pub lowest: f64,
    /// Median.
    pub median: f64,
    /// Highest.
    pub highest: f64,
}

impl Spread {
    /// `None` of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            lowest: *values.first()?,
            median: *values.get(values.len() / 2)?,
            highest: *values.last()?,
        })
    }
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Judgement {
    /// What huge text gives.
    pub verdict: Verdict,
    /// Why the times do not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub doubt: Option<Doubt>,
    /// How much longer a call into another page takes behind leaves than one that misses nothing in the instruction TLB,
    /// as a share of the latter: near 0 where a leaf is one entry.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missed: Option<Spread>,
    /// What a system call costs text behind leaves, as a share of the time of calls into 256 pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_call: Option<Spread>,
    /// The times of calls.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<Calls>,
    /// How sure it is: of so many trials, how many agree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agreement: Option<Agreement>,
}

/// How many trials there were, and how many of them say what the verdict says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Agreement {
    /// Trials.
    pub trials: usize,
    /// Those that agree with the verdict; of one that cannot tell, the most that agree with each other.
    pub agree: usize,
}

/// Nanoseconds of a call: the median of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Calls {
    /// Into another base page each time, in small folios.
    pub small: f64,
    /// The same, in huge folios behind tables of base pages.
    pub tables: f64,
    /// The same, in huge folios behind leaves.
    pub leaves: f64,
    /// Into as many lines of a few pages, which the TLB holds.
    pub gathered: f64,
}

impl Calls {
    fn of(blocks: &[CallTimes]) -> Option<Calls> {
        let median = |of: fn(&CallTimes) -> f64| {
            Spread::of(blocks.iter().map(of)).map(|spread| spread.median)
        };
        Some(Calls {
            small: median(|block| block.small)?,
            tables: median(|block| block.tables)?,
            leaves: median(|block| block.leaves)?,
            gathered: median(|block| block.gathered)?,
        })
    }
}

/// Up to here, a leaf is one entry.
const ONE_ENTRY: f64 = 0.2;
/// From here on, a leaf is split: the processor walks the tables for each base page. Guests whose host splits leaves had
/// 0.7 to 1.2.
const SPLIT: f64 = 0.4;
/// The share of the blocks that must agree.
const AGREEMENT: f64 = 0.8;
/// Fewer blocks agree by accident. A machine with much other work makes no more of them in the time of a trial.
const LEAST_BLOCKS: usize = 5;
/// No leaf makes calls faster than calls that miss nothing. Below this, the latter were disturbed.
const DISTURBED: f64 = -0.04;

/// Decides from the blocks of a trial.
pub fn judge(blocks: &[CallTimes]) -> Judgement {
    let missed: Vec<f64> = blocks.iter().filter_map(CallTimes::missed).collect();
    let costs = blocks.iter().map(|block| block.system_call.0);
    let agree = |count: usize| count as f64 >= AGREEMENT * blocks.len() as f64;
    let one_entry = |share: &f64| (DISTURBED..=ONE_ENTRY).contains(share);
    let split = missed.iter().filter(|share| **share >= SPLIT).count();
    let costly = blocks.iter().filter(|block| block.system_call.is_costly());
    let costly = costly.count();
    let (verdict, doubt) = if blocks.is_empty() || !agree(missed.len()) {
        (Verdict::CannotTell, Some(Doubt::NoMisses))
    } else if blocks.len() < LEAST_BLOCKS {
        (Verdict::CannotTell, Some(Doubt::Disagreement))
    } else if agree(costly) {
        (Verdict::Harmful, None)
    } else if !agree(blocks.len() - costly) {
        (Verdict::CannotTell, Some(Doubt::Disagreement))
    } else if agree(missed.iter().filter(|share| one_entry(share)).count()) {
        (Verdict::WorthIt, None)
    } else if agree(split) {
        (Verdict::StartsOnly, None)
    } else {
        (Verdict::CannotTell, Some(Doubt::Disagreement))
    };
    let entries = missed.iter().filter(|share| one_entry(share)).count();
    let harmless = blocks.len() - costly;
    let agree = match verdict {
        Verdict::Harmful => costly,
        Verdict::WorthIt => entries.min(harmless),
        Verdict::StartsOnly => split.min(harmless),
        Verdict::CannotTell => entries.max(split).max(costly),
    };
    Judgement {
        agreement: (!blocks.is_empty()).then_some(Agreement {
            trials: blocks.len(),
            agree,
        }),
        verdict,
        doubt,
        missed: Spread::of(missed),
        system_call: Spread::of(costs),
        calls: Calls::of(blocks),
    }
}

impl Judgement {
    /// One that no trial could give.
    pub fn doubtful(doubt: Doubt) -> Judgement {
        Judgement {
            verdict: Verdict::CannotTell,
            doubt: Some(doubt),
            missed: None,
            system_call: None,
            calls: None,
            agreement: None,
        }
    }

    /// Whether the trials tell that a leaf is one entry of the TLB.
    pub fn is_one_entry(&self) -> bool {
        self.missed.is_some_and(|missed| missed.median <= ONE_ENTRY)
    }
}
