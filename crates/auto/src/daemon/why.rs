//! What is done about a file, and why.

use std::time::Duration;

use hugetext_leaf::hold::{Gain, Place, Refusal};

use super::Daemon;
use crate::catalog::{FileText, Key, Known};
use crate::config::Mode;
use crate::reason::{Shortage, Why};

impl Daemon<'_> {
    /// Why what is done about a file is done.
    pub(super) fn why(&self, key: Key, known: &Known, text: &FileText, now: Duration) -> Why {
        let place = self.choice.held.get(&key).copied();
        if let Some(held) = self.holder.get(key) {
            let rest = held.windows.saturating_sub(held.huge);
            let missing = held.obstacle.clone().map(|hindrance| (rest, hindrance));
            return place.map_or(Why::HeldUndecided, |place| {
                Why::Held(place, text.gain, missing)
            });
        }
        if let Some(place) = place {
            return self.why_not_yet(key, place, text.gain, now);
        }
        if let Some(exclusion) = self.excluded.get(&key) {
            let words = text.obstacle.clone().map(Why::Filesystem);
            return words.unwrap_or(Why::Excluded(*exclusion));
        }
        let (bytes, allowed) = (text.bytes(), self.allowed());
        match self.choice.refused.get(&key) {
            Some(Refusal::TooLarge) => Why::TooLarge(bytes, allowed, self.shortage(key)),
            Some(Refusal::NoRoom) => Why::NoRoom(bytes, allowed),
            Some(Refusal::NotWorthIt) => self.not_worth_it(known, text, now),
            None => Why::NotDecided,
        }
    }

    /// Why what is to be held is not held yet.
    fn why_not_yet(&self, key: Key, place: Place, gain: Gain, now: Duration) -> Why {
        match (self.mode(), self.holder.hindrance(key)) {
            (Mode::Observe, _) => Why::WouldHold(place),
            (Mode::Act, _) if self.is_blamed(key) => Why::LeftAlone,
            (Mode::Act, _) if self.allowance.rests(now) => Why::Rests,
            (Mode::Act, _) if !self.allowance.is_calm(now) => Why::Pressure,
            // It stays so until the next try has ended.
            (Mode::Act, Some((until, hindrance))) => {
                Why::Hindered(hindrance.clone(), until.saturating_sub(now))
            }
            (Mode::Act, None) => Why::Soon(gain),
        }
    }

    /// What makes the bytes that may be held too few for a file.
    pub(super) fn shortage(&self, key: Key) -> Shortage {
        let text = self.catalog.get(key).and_then(|known| known.text.as_ref());
        if text.is_some_and(|text| text.bytes() <= self.allowance.bytes()) {
            Shortage::ListsFirst
        } else {
            Shortage::Bound(self.allowance.bound(&self.ceiling))
        }
    }

    fn not_worth_it(&self, known: &Known, text: &FileText, now: Duration) -> Why {
        let worth = known.worth(&self.costs, now, self.config.half_life());
        Why::NotWorthIt {
            unit: match text.gain {
                Gain::Windows(_) => "a window".to_owned(),
                Gain::Folios => format!("{} of text", text.leaf),
            },
            saves: worth.nanoseconds(),
            costs: self.costs.fill,
            counts_time: self.costs.share() != 0.0,
        }
    }
}
