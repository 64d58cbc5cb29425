//! What the daemon did since it began, for metrics.

use std::collections::BTreeMap;

use hugetext_leaf::hold::{Place, Pressure};
use hugetext_metrics::{Decision, GivenBack};

use super::let_go::LetGo;
use crate::reason::{Cause, Exclusion};

/// What the daemon did since it began.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) starts: u64,
    pub(super) decisions: BTreeMap<Decision, u64>,
    pub(super) given_back: GivenBack,
    pub(super) bad_settings: u64,
    pub(super) unread: u64,
    pub(super) unfilled: u64,
}

impl Tally {
    /// A file is held from now on.
    pub(super) fn held(&mut self, place: Option<Place>) {
        let reason = place.map_or(Cause::NotDecided, Cause::from).label();
        let decision = "hold";
        self.count(Decision { decision, reason });
    }

    /// A file of so many bytes was released.
    pub(super) fn let_go(&mut self, why: LetGo, bytes: u64) {
        self.count(why.decision());
        let sum = match why {
            LetGo::Stalled(Pressure::Some) => &mut self.given_back.some,
            LetGo::Stalled(Pressure::Full) => &mut self.given_back.full,
            LetGo::Excluded(Exclusion::GroupShort) => &mut self.given_back.cgroup,
            _ => return,
        };
        *sum = sum.saturating_add(bytes);
    }

    fn count(&mut self, decision: Decision) {
        let times = self.decisions.entry(decision).or_default();
        *times = times.saturating_add(1);
    }
}

/// One more.
pub(super) fn count(number: &mut u64) {
    *number = number.saturating_add(1);
}
