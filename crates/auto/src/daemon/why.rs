//! What is done about a file, and why.

use hugetext_leaf::hold::{Gain, Place, Refusal};

use super::decision::Decision;
use super::files::Files;
use super::hold::Hold;
use super::room::Room;
use super::terms::Terms;
use crate::catalog::{FileText, Key, Known};
use crate::config::Mode;
use crate::reason::Why;

/// All that reasons come from, to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reasons<'d> {
    pub(super) terms: &'d Terms,
    pub(super) files: &'d Files,
    pub(super) room: &'d Room,
    pub(super) decision: &'d Decision,
    pub(super) hold: &'d Hold,
    /// Bytes that may be held of what was seen.
    pub(super) allowed: u64,
}

impl Reasons<'_> {
    /// Why what is done about a file is done.
    pub(super) fn why(&self, key: Key, known: &Known, text: &FileText) -> Why {
        let place = self.decision.place(key);
        if let Some(held) = self.hold.get(key) {
            let rest = held.windows.saturating_sub(held.huge);
            let missing = held.obstacle.clone().map(|hindrance| (rest, hindrance));
            return place.map_or(Why::HeldUndecided, |place| {
                Why::Held(place, text.gain, missing)
            });
        }
        if let Some(place) = place {
            return self.why_not_yet(key, place, text.gain);
        }
        if let Some(exclusion) = self.decision.excluded.get(&key) {
            let words = text.obstacle.clone().map(Why::Filesystem);
            return words.unwrap_or(Why::Excluded(*exclusion));
        }
        let (bytes, allowed) = (text.bytes(), self.allowed);
        match self.decision.choice.refused.get(&key) {
            Some(Refusal::TooLarge) => {
                Why::TooLarge(bytes, allowed, self.room.shortage(Some(text)))
            }
            Some(Refusal::NoRoom) => Why::NoRoom(bytes, allowed),
            Some(Refusal::NotWorthIt) => self.not_worth_it(known, text),
            None => Why::NotDecided,
        }
    }

    /// Why what is to be held is not held yet.
    fn why_not_yet(&self, key: Key, place: Place, gain: Gain) -> Why {
        let now = self.terms.now();
        let allowance = self.room.allowance;
        match (self.terms.mode(), self.hold.hindrance(key)) {
            (Mode::Observe, _) => Why::WouldHold(place),
            (Mode::Act, _) if self.files.is_blamed(key) => Why::LeftAlone,
            (Mode::Act, _) if allowance.rests(now) => Why::Rests,
            (Mode::Act, _) if !allowance.is_calm(now) => Why::Pressure,
            // It stays so until the next try has ended.
            (Mode::Act, Some((until, hindrance))) => {
                Why::Hindered(hindrance.clone(), until.saturating_sub(now))
            }
            (Mode::Act, None) => Why::Soon(gain),
        }
    }

    fn not_worth_it(&self, known: &Known, text: &FileText) -> Why {
        let costs = &self.terms.costs;
        let moment = self.terms.moment();
        let worth = known.worth(costs, moment);
        Why::NotWorthIt {
            unit: match text.gain {
                Gain::Windows(_) => "a window".to_owned(),
                Gain::Folios => format!("{} of text", text.leaf),
            },
            saves: worth.nanoseconds(),
            costs: costs.fill,
            counts_time: costs.share() != 0.0,
        }
    }
}
