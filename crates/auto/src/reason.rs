//! Why a file is held, or why not: one value for each reason, from where it is decided to where it is said.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use hugetext_host::Holder;
use hugetext_leaf::hold::{Bound, Gain, Level, Place};
use hugetext_leaf::verdict::LeavesDoHarm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file_state::State;

/// The name of a reason, as documents and metrics have it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It is worth it within the share of its control group.
    GroupShare,
    /// It is worth it within the share of its user.
    UserShare,
    /// It is worth it, in memory that no share needed.
    Spare,
    /// The administrator's lists hold it.
    Listed,
    /// Processes map it in small pages.
    InUse,
    /// The kernel gave no huge folios.
    NotHuge,
    /// A control group with a memory limit may pay for it.
    ChargedElsewhere,
    /// Its filesystem did not answer in time.
    NoAnswer,
    /// A system call failed.
    Failed,
    /// A file of the users that run it does not answer.
    LeftAlone,
    /// Memory was short a short time ago.
    Pressure,
    /// Tasks waited for memory a moment ago, although it was plenty.
    Rests,
    /// It is about to be held.
    Soon,
    /// Its filesystem cannot hold it.
    Filesystem,
    /// Its filesystem may be unmounted at any time.
    Unmountable,
    /// The budget of its rule is used up.
    RuleBudget,
    /// It alone is more than the budget.
    Budget,
    /// It alone is more than a third of the limit of the daemon's control group.
    OwnLimit,
    /// It alone is more than free memory allows.
    FreeMemory,
    /// It alone is more than may be held since memory was short.
    Recovery,
    /// The lists and promoted processes leave too little.
    ListsFirst,
    /// Others take what may be held.
    NoRoom,
    /// It saves less than it costs.
    NotWorthIt,
    /// It saves more than it costs, but not by a level.
    NotYetWorthIt,
    /// Nobody runs it any more.
    NotRun,
    /// A rule denies it.
    Denied,
    /// A control group that runs it was at its memory limit.
    CgroupPressure,
    /// It was seen after the last decision.
    #[default]
    NotDecided,
    /// Another file is in its place.
    Replaced,
    /// It cannot be found, or opened, any more.
    Gone,
    /// The daemon only observes.
    Observes,
}

impl Cause {
    /// One word.
    pub fn label(self) -> &'static str {
        match self {
            Cause::GroupShare => "group_share",
            Cause::UserShare => "user_share",
            Cause::Spare => "spare",
            Cause::Listed => "listed",
            Cause::InUse => "in_use",
            Cause::NotHuge => "not_huge",
            Cause::ChargedElsewhere => "charged_elsewhere",
            Cause::NoAnswer => "no_answer",
            Cause::Failed => "failed",
            Cause::LeftAlone => "left_alone",
            Cause::Pressure => "pressure",
            Cause::Rests => "rests",
            Cause::Soon => "soon",
            Cause::Filesystem => "filesystem",
            Cause::Unmountable => "unmountable",
            Cause::RuleBudget => "rule_budget",
            Cause::Budget => "budget",
            Cause::OwnLimit => "own_limit",
            Cause::FreeMemory => "free_memory",
            Cause::Recovery => "recovery",
            Cause::ListsFirst => "lists_first",
            Cause::NoRoom => "no_room",
            Cause::NotWorthIt => "not_worth_it",
            Cause::NotYetWorthIt => "not_yet_worth_it",
            Cause::NotRun => "not_run",
            Cause::Denied => "denied",
            Cause::CgroupPressure => "cgroup_pressure",
            Cause::NotDecided => "not_decided",
            Cause::Replaced => "replaced",
            Cause::Gone => "gone",
            Cause::Observes => "observes",
        }
    }
}

impl From<Place> for Cause {
    fn from(place: Place) -> Cause {
        match place {
            Place::Group => Cause::GroupShare,
            Place::User => Cause::UserShare,
            Place::Rest => Cause::Spare,
        }
    }
}

/// Why text is not as it should be, though it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// Processes map it in small pages. What was tried, and who uses it, as far as they are known.
    InUse(String, Vec<Holder>),
    /// The kernel gave no huge folios. What was tried.
    NotHuge(String),
    /// It is huge already, and a control group with a memory limit may pay for it.
    ChargedElsewhere,
    /// Its filesystem did not answer in time.
    NoAnswer,
    /// A system call failed.
    Failed(String),
}

impl Hindrance {
    /// Its name.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Hindrance::InUse(..) => Cause::InUse,
            Hindrance::NotHuge(_) => Cause::NotHuge,
            Hindrance::ChargedElsewhere => Cause::ChargedElsewhere,
            Hindrance::NoAnswer => Cause::NoAnswer,
            Hindrance::Failed(_) => Cause::Failed,
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hindrance::InUse(tried, users) => match users.as_slice() {
                [] => write!(f, "{tried}; in use"),
                [one] => write!(f, "{tried}; in use by {} ({})", one.name, one.pid),
                [one, others @ ..] => {
                    let (name, pid, more) = (&one.name, one.pid, others.len());
                    write!(f, "{tried}; in use by {name} ({pid}) and {more} more")
                }
            },
            Hindrance::NotHuge(tried) => write!(f, "the kernel made no huge folios: {tried}"),
            Hindrance::ChargedElsewhere => f.write_str(
                "it is huge already, and a control group with a memory limit may pay for it, so it is not locked",
            ),
            Hindrance::NoAnswer => f.write_str("its filesystem did not answer in time"),
            Hindrance::Failed(error) => f.write_str(error),
        }
    }
}

/// Why a file is not among those that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exclusion {
    /// A control group that runs it was at its memory limit a short time ago.
    GroupShort,
    /// This rule denies it, counted from 1.
    Denied(usize),
    /// Nobody runs it any more.
    NotRun,
    /// Its filesystem cannot hold it.
    Filesystem,
    /// Its filesystem may be unmounted at any time, and held text would keep it busy.
    Unmountable,
    /// The administrator's lists hold it.
    Listed,
    /// The budget of this rule is used up, counted from 1.
    RuleBudget(usize),
}

impl Exclusion {
    /// Its name.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Exclusion::GroupShort => Cause::CgroupPressure,
            Exclusion::Denied(_) => Cause::Denied,
            Exclusion::NotRun => Cause::NotRun,
            Exclusion::Filesystem => Cause::Filesystem,
            Exclusion::Unmountable => Cause::Unmountable,
            Exclusion::Listed => Cause::Listed,
            Exclusion::RuleBudget(_) => Cause::RuleBudget,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exclusion::GroupShort => {
                f.write_str("a control group that runs it was at its memory limit a short time ago")
            }
            Exclusion::Denied(rule) => write!(f, "denied by rule {rule} of the configuration"),
            Exclusion::NotRun => f.write_str("not run for a long time"),
            Exclusion::Filesystem => f.write_str("its filesystem cannot hold it"),
            Exclusion::Unmountable => f.write_str(
                "its filesystem may be unmounted at any time, which held text would prevent: no boot mounts it",
            ),
            Exclusion::Listed => f.write_str("listed by the administrator"),
            Exclusion::RuleBudget(rule) => {
                write!(
                    f,
                    "the budget of rule {rule} of the configuration is used up"
                )
            }
        }
    }
}

/// What makes the bytes that may be held too few for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shortage {
    /// So few may be held in all.
    Bound(Bound),
    /// What the lists and promoted processes hold comes first.
    ListsFirst,
}

impl Shortage {
    /// Its name.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Shortage::Bound(Bound::Budget) => Cause::Budget,
            Shortage::Bound(Bound::GroupLimit) => Cause::OwnLimit,
            Shortage::Bound(Bound::FreeMemory) => Cause::FreeMemory,
            Shortage::Bound(Bound::Recovery) => Cause::Recovery,
            Shortage::ListsFirst => Cause::ListsFirst,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shortage::Bound(Bound::Budget) => "the budget",
            Shortage::Bound(Bound::GroupLimit) => {
                "a third of the memory limit of the daemon's control group"
            }
            Shortage::Bound(Bound::FreeMemory) => "a quarter of the free memory",
            Shortage::Bound(Bound::Recovery) => {
                "memory was short, and what may be held rises again in steps"
            }
            Shortage::ListsFirst => "the lists and promoted processes come first",
        })
    }
}

/// Why what is done about a file is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Why {
    /// It is held, out of this share; of so many windows that are not huge, why.
    Held(Place, Gain, Option<(u64, Hindrance)>),
    /// It is held, and the share was decided for what it was before.
    HeldUndecided,
    /// The daemon only observes, and would hold it.
    WouldHold(Place),
    /// Something was in the way, and it is tried again after so long.
    Hindered(Hindrance, Duration),
    /// Memory was short a short time ago.
    Pressure,
    /// Tasks waited for memory a moment ago, although it was plenty.
    Rests,
    /// A file of the users that run it does not answer.
    LeftAlone,
    /// It is about to be held.
    Soon(Gain),
    /// Its filesystem cannot hold it, as these words say.
    Filesystem(String),
    /// It is not compared with others.
    Excluded(Exclusion),
    /// It has so many bytes, more than may be held.
    TooLarge(u64, u64, Shortage),
    /// It has so many bytes, and others take what may be held.
    NoRoom(u64, u64),
    /// It saves so many nanoseconds and costs so many, in this unit of text; whether processor time counts.
    NotWorthIt {
        /// What the numbers are of.
        unit: String,
        /// Nanoseconds saved.
        saves: f64,
        /// Nanoseconds to fill it.
        costs: f64,
        /// Whether its processor time counts.
        counts_time: bool,
    },
    /// It was seen after the last decision.
    NotDecided,
}

impl Why {
    /// What is done.
    pub(crate) fn state(&self) -> State {
        match self {
            Why::Held(..) | Why::HeldUndecided | Why::Excluded(Exclusion::Listed) => State::Held,
            Why::WouldHold(_) => State::WouldHold,
            Why::Hindered(..)
            | Why::Pressure
            | Why::Rests
            | Why::LeftAlone
            | Why::Soon(_)
            | Why::NotDecided => State::Waiting,
            Why::Filesystem(_)
            | Why::Excluded(_)
            | Why::TooLarge(..)
            | Why::NoRoom(..)
            | Why::NotWorthIt { .. } => State::Refused,
        }
    }

    /// Its name.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Why::Held(place, ..) | Why::WouldHold(place) => (*place).into(),
            Why::HeldUndecided | Why::NotDecided => Cause::NotDecided,
            Why::Hindered(hindrance, _) => hindrance.cause(),
            Why::Pressure => Cause::Pressure,
            Why::Rests => Cause::Rests,
            Why::LeftAlone => Cause::LeftAlone,
            Why::Soon(_) => Cause::Soon,
            Why::Filesystem(_) => Cause::Filesystem,
            Why::Excluded(exclusion) => exclusion.cause(),
            Why::TooLarge(_, _, shortage) => shortage.cause(),
            Why::NoRoom(..) => Cause::NoRoom,
            Why::NotWorthIt { saves, costs, .. } if saves >= costs => Cause::NotYetWorthIt,
            Why::NotWorthIt { .. } => Cause::NotWorthIt,
        }
    }
}

fn share_name(place: Place) -> &'static str {
    match place {
        Place::Group => "worth it within the share of its control group",
        Place::User => "worth it within the share of its user",
        Place::Rest => "worth it, in memory that no share needed",
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Held(place, Gain::Folios, _) => {
                let share = share_name(*place);
                write!(f, "{share}; it has no window, and is in the largest folios")
            }
            Why::Held(place, Gain::Windows(_), None) => f.write_str(share_name(*place)),
            Why::Held(place, Gain::Windows(_), Some((rest, hindrance))) => {
                write!(f, "{}; {rest} windows are not: {hindrance}", share_name(*place))
            }
            Why::HeldUndecided => f.write_str("held; its share is decided in a second"),
            Why::WouldHold(place) => f.write_str(share_name(*place)),
            Why::Hindered(hindrance, again) => {
                write!(f, "{hindrance}; tried again in {} s", again.as_secs())
            }
            Why::Pressure => f.write_str("memory was short a short time ago"),
            Why::Rests => f.write_str(
                "tasks waited for memory a moment ago, though it is plenty; nothing is filled for a few seconds",
            ),
            Why::LeftAlone => f.write_str(
                "only users run it of whose files one does not answer; tried again when it has answered",
            ),
            Why::Soon(Gain::Windows(_)) => f.write_str("about to be made huge"),
            Why::Soon(Gain::Folios) => f.write_str("about to be read into larger folios"),
            Why::Filesystem(words) => f.write_str(words),
            Why::Excluded(exclusion) => exclusion.fmt(f),
            Why::TooLarge(bytes, allowed, shortage) => write!(
                f,
                "too large: it has {bytes} bytes, and {allowed} may be held now: {shortage}"
            ),
            Why::NoRoom(bytes, allowed) => write!(
                f,
                "no room for its {bytes} bytes: others take the {allowed} that may be held now"
            ),
            Why::NotWorthIt {
                unit,
                saves,
                costs,
                counts_time,
            } => {
                let words = |nanoseconds: f64| format!("{:.0} µs", nanoseconds / 1000.0);
                let (saved, cost) = (words(*saves), words(*costs));
                if *saves < 0.0 {
                    let lost = words(saves.abs());
                    return write!(f, "not worth it: {unit} may lose {lost} by leaves, because {LeavesDoHarm}");
                }
                let numbers = format!("{unit} saves {saved} and costs {cost} to fill");
                if saves >= costs {
                    // A level follows the worth only when that has changed by a whole level.
                    let step = Level::STEP;
                    return write!(
                        f,
                        "not worth it yet: {numbers}; it must save {step} times its cost"
                    );
                }
                let ignored = if *counts_time {
                    ""
                } else {
                    "; its processor time does not count (see `auto status`)"
                };
                write!(f, "not worth it: {numbers}{ignored}")
            }
            Why::NotDecided => f.write_str("seen after the last decision, which is made each second"),
        }
    }
}
