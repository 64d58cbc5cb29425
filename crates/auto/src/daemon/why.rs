//! What is done about a file, and why: once as a value, for metrics, and once in words.

use std::time::Duration;

use hugetext_leaf::hold::{Gain, Level, Place, Refusal, Worth};

use super::Daemon;
use crate::catalog::{FileText, Key, Known};
use crate::config::Mode;
use crate::status::State;
use crate::text::Filled;

/// Why what is done about a file is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It is held, out of this share.
    Held(Option<Place>),
    /// The administrator's lists hold it.
    Listed,
    /// It would be held.
    WouldHold(Place),
    /// Something failed a short time ago.
    Failed,
    /// Memory was short a short time ago.
    NotCalm,
    /// It is about to be held.
    Soon,
    /// Its filesystem cannot hold it.
    Obstacle,
    /// The budget of its rule is used up.
    OverRule,
    /// Others save more.
    NoRoom,
    /// It saves less than it costs.
    NotWorthIt,
    /// Nobody runs it any more.
    NotRun,
    /// A rule denies it, or its control group is short of memory.
    Denied,
}

impl Why {
    /// What is done.
    pub(super) fn state(self) -> State {
        match self {
            Why::Held(_) | Why::Listed => State::Held,
            Why::WouldHold(_) => State::WouldHold,
            Why::Failed | Why::NotCalm | Why::Soon => State::Waiting,
            Why::Obstacle
            | Why::OverRule
            | Why::NoRoom
            | Why::NotWorthIt
            | Why::NotRun
            | Why::Denied => State::Refused,
        }
    }

    /// For metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Why::Held(Some(place)) | Why::WouldHold(place) => place_label(place),
            Why::Held(None) => "not_chosen",
            Why::Listed => "listed",
            Why::Failed => "failed",
            Why::NotCalm => "pressure",
            Why::Soon => "soon",
            Why::Obstacle => "filesystem",
            Why::OverRule => "rule_budget",
            Why::NoRoom => "no_room",
            Why::NotWorthIt => "not_worth_it",
            Why::NotRun => "not_run",
            Why::Denied => "denied",
        }
    }
}

/// A share, for metrics.
pub(super) fn place_label(place: Place) -> &'static str {
    match place {
        Place::Group => "group_share",
        Place::User => "user_share",
        Place::Rest => "spare",
    }
}

fn share_name(place: Place) -> &'static str {
    match place {
        Place::Group => "worth it within the share of its control group",
        Place::User => "worth it within the share of its user",
        Place::Rest => "worth it, in memory that no share needed",
    }
}

impl Daemon<'_> {
    /// Why what is done about a file is done.
    pub(super) fn why(&self, key: Key, known: &Known, text: &FileText, now: Duration) -> Why {
        let place = self.choice.held.get(&key).copied();
        if self.holder.get(key).is_some() {
            return Why::Held(place);
        }
        if let Some(place) = place {
            let waits = self.holder.wait(key).is_some_and(|wait| wait.until > now);
            return match self.mode() {
                Mode::Observe => Why::WouldHold(place),
                Mode::Act if waits => Why::Failed,
                Mode::Act if !self.allowance.is_calm(now) => Why::NotCalm,
                Mode::Act => Why::Soon,
            };
        }
        if text.obstacle.is_some() {
            return Why::Obstacle;
        }
        if self.over_rule.contains(&key) {
            return Why::OverRule;
        }
        let listed = self.listed.as_ref();
        match self.choice.refused.get(&key) {
            Some(Refusal::NoRoom) => Why::NoRoom,
            Some(Refusal::NotWorthIt) => Why::NotWorthIt,
            None if listed.is_some_and(|(_, held)| held.contains(&text.state)) => Why::Listed,
            None if known.by.is_empty() => Why::NotRun,
            None => Why::Denied,
        }
    }

    /// The same in words.
    pub(super) fn reason(
        &self,
        key: Key,
        known: &Known,
        text: &FileText,
        now: Duration,
    ) -> (State, String) {
        let why = self.why(key, known, text, now);
        let words = match why {
            Why::Held(place) => {
                let share = place.map_or("", share_name);
                match text.gain {
                    Gain::Windows(_) => format!("{share}{}", self.not_huge(key)),
                    Gain::Folios => {
                        format!("{share}; it has no window, and is in the largest folios")
                    }
                }
            }
            Why::Listed => "listed by the administrator".to_owned(),
            Why::WouldHold(place) => share_name(place).to_owned(),
            Why::Failed => self.failure(key, now),
            Why::NotCalm => "memory was short a short time ago".to_owned(),
            Why::Soon => match text.gain {
                Gain::Windows(_) => "about to be made huge".to_owned(),
                Gain::Folios => "about to be read into larger folios".to_owned(),
            },
            Why::Obstacle => text.obstacle.clone().unwrap_or_default(),
            Why::OverRule => "the budget of its rule is used up".to_owned(),
            Why::NoRoom => format!(
                "no room: {} would be more than may be held, and others save more",
                text.bytes()
            ),
            Why::NotWorthIt => {
                let unit = match text.gain {
                    Gain::Windows(_) => "a window".to_owned(),
                    Gain::Folios => format!("{} of text", text.leaf),
                };
                self.not_worth_it(
                    &unit,
                    known.worth(&self.costs, now, self.config.half_life()),
                )
            }
            Why::NotRun => "not run for a long time".to_owned(),
            Why::Denied => {
                "denied by the configuration, or its control group is short of memory".to_owned()
            }
        };
        (why.state(), words)
    }

    /// Which windows of a file that is held are not huge.
    fn not_huge(&self, key: Key) -> String {
        match self.holder.get(key) {
            Some(Filled {
                windows,
                huge,
                obstacle: Some(obstacle),
                ..
            }) => {
                let rest = windows.saturating_sub(*huge);
                format!("; {rest} windows are not: {obstacle}")
            }
            _ => String::new(),
        }
    }

    fn failure(&self, key: Key, now: Duration) -> String {
        self.holder.wait(key).map_or_else(String::new, |wait| {
            let seconds = wait.until.saturating_sub(now).as_secs();
            format!("{}; tried again in {seconds} s", wait.reason)
        })
    }

    /// What a unit of text saves and costs, in words.
    fn not_worth_it(&self, unit: &str, worth: Worth) -> String {
        let words = |nanoseconds: f64| format!("{:.0} µs", nanoseconds / 1000.0);
        let (saved, cost) = (words(worth.nanoseconds()), words(self.costs.fill));
        let numbers = format!("{unit} saves {saved} and costs {cost} to fill");
        if worth.nanoseconds() >= self.costs.fill {
            // A level follows the worth only when that has changed by a whole level.
            let step = Level::STEP;
            return format!("not worth it yet: {numbers}; it must save {step} times its cost");
        }
        let ignored = if self.costs.share() == 0.0 {
            "; its processor time does not count (see `auto status`)"
        } else {
            ""
        };
        format!("not worth it: {numbers}{ignored}")
    }
}
