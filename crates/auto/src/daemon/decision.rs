//! Decides what to hold of what is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use hugetext_host::FileState;
use hugetext_leaf::hold::{Candidate, Choice, Place, Principal, Refusal, choose};

use super::files::Files;
use super::room::Room;
use super::terms::Terms;
use crate::catalog::{Key, Levels};
use crate::owners::Groups;
use crate::reason::Exclusion;

/// The time between two decisions.
const DECIDE: Duration = Duration::from_secs(1);
/// Evidence fades even if nothing happens, and what waits comes due.
const LATEST: Duration = Duration::from_secs(30);
/// Decisions for what was seen take at most this part of one processor,
const DECISIONS: u32 = 1000;
/// and come at least so often.
const UNHURRIED: Duration = Duration::from_secs(10);

/// What was decided last, and when to decide anew.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) candidates: Vec<Candidate<Key>>,
    pub(super) choice: Choice<Key>,
    /// The files with text that were not compared at the last decision.
    pub(super) excluded: BTreeMap<Key, Exclusion>,
    levels: Levels,
    /// Whether there is something to decide at once.
    changed: bool,
    /// Whether more was seen of what is known. Levels follow that slowly.
    evidence: bool,
    /// What was seen alone leads to no decision before.
    unhurried: Duration,
    /// When to decide anew although nothing has changed.
    due: Option<Duration>,
    /// When it was last asked whether to decide.
    asked: Option<Instant>,
}

impl Decision {
    /// Nothing is decided yet.
    pub(super) fn new() -> Decision {
        Decision {
            candidates: Vec::new(),
            choice: Choice::default(),
            excluded: BTreeMap::new(),
            levels: Levels::new(),
            changed: true,
            evidence: true,
            unhurried: Duration::ZERO,
            due: None,
            asked: None,
        }
    }

    /// Something has changed, if `has_changed`: the next decision comes in turn, whatever it takes.
    pub(super) fn note(&mut self, has_changed: bool) {
        self.changed |= has_changed;
    }

    /// More was seen of what is known, if `is_evidence`.
    pub(super) fn note_evidence(&mut self, is_evidence: bool) {
        self.evidence |= is_evidence;
    }

    /// The next turn comes in this round.
    pub(super) fn hurry(&mut self) {
        self.asked = None;
    }

    /// Whether it is the turn of a decision again.
    pub(super) fn takes_turn(&mut self) -> bool {
        let turn = self.asked.is_none_or(|at| at.elapsed() >= DECIDE);
        if turn {
            self.asked = Some(Instant::now());
        }
        turn
    }

    /// Whether to decide anew in this turn. `retries` says whether something can be tried again.
    pub(super) fn is_due(&mut self, retries: bool, now: Duration) -> bool {
        let is_due = self.changed
            || self.due.is_none_or(|due| now >= due)
            || (self.evidence && now >= self.unhurried)
            || retries;
        if is_due {
            (self.changed, self.evidence) = (false, false);
            self.due = Some(now.saturating_add(LATEST));
        }
        is_due
    }

    /// The decision that was made at `now` took so much processor time.
    pub(super) fn took(&mut self, time: Duration, now: Duration) {
        self.unhurried = now.saturating_add(time.saturating_mul(DECISIONS).min(UNHURRIED));
    }

    /// Makes the candidates and the choice. What is `listed` is held already; `allowed` bytes may be held of the rest.
    pub(super) fn decide(
        &mut self,
        terms: &Terms,
        files: &Files,
        (room, groups): (&Room, &Groups),
        listed: Option<&BTreeSet<FileState>>,
        allowed: u64,
    ) {
        let counts = |path: &Path, by: Principal| {
            if room.is_pressed(by.group) {
                return Err(Exclusion::GroupShort);
            }
            let denied = terms.config.denies(path, groups.name(by.group));
            denied.map_or(Ok(()), |rule| Err(Exclusion::Denied(rule)))
        };
        let catalog = &files.catalog;
        (self.candidates, self.excluded) =
            catalog.candidates(&mut self.levels, &terms.costs, terms.moment(), counts);
        self.exclude_listed(files, listed);
        self.exclude_over_budget(terms, files, groups, room.memory.total);
        let excluded = &self.excluded;
        self.candidates
            .retain(|candidate| !excluded.contains_key(&candidate.key));
        self.choice = choose(&self.candidates, allowed);
    }

    /// What the lists hold is held once.
    fn exclude_listed(&mut self, files: &Files, listed: Option<&BTreeSet<FileState>>) {
        let Some(listed) = listed else { return };
        let excluded = &mut self.excluded;
        self.candidates.retain(|candidate| {
            let text = files.text(candidate.key);
            let is_listed = text.is_some_and(|text| listed.contains(&text.state));
            if is_listed {
                excluded.insert(candidate.key, Exclusion::Listed);
            }
            !is_listed
        });
    }

    /// Of the files of a rule with a budget, those that have no room in it.
    fn exclude_over_budget(&mut self, terms: &Terms, files: &Files, groups: &Groups, total: u64) {
        let config = &terms.config;
        for (number, rule) in config.rules.iter().enumerate() {
            let Some(budget) = rule.budget else { continue };
            let of_rule = |candidate: &&Candidate<Key>| {
                let Some(known) = files.catalog.get(candidate.key) else {
                    return false;
                };
                let mut claims = candidate.claims.iter();
                claims.any(|claim| {
                    let group = groups.name(claim.principal.group);
                    config
                        .rule(&known.path, group)
                        .is_some_and(|(first, _)| first == number)
                })
            };
            let own: Vec<Candidate<Key>> =
                self.candidates.iter().filter(of_rule).cloned().collect();
            let choice = choose(&own, budget.bytes(total));
            let refused = choice.refused.into_iter();
            let over = refused.filter(|(_, why)| *why != Refusal::NotWorthIt);
            let used_up = Exclusion::RuleBudget(number.saturating_add(1));
            self.excluded.extend(over.map(|(key, _)| (key, used_up)));
        }
    }

    /// Whether a file is to be held, and out of which share.
    pub(super) fn place(&self, key: Key) -> Option<Place> {
        self.choice.held.get(&key).copied()
    }

    /// Whether a file is to be held.
    pub(super) fn holds(&self, key: Key) -> bool {
        self.choice.held.contains_key(&key)
    }

    /// What is to be held, most valuable first.
    pub(super) fn chosen(&self) -> Vec<Key> {
        let candidates = self.candidates.iter();
        let mut chosen: Vec<&Candidate<Key>> = candidates
            .filter(|candidate| self.holds(candidate.key))
            .collect();
        chosen.sort_by(|a, b| (b.level, a.key).cmp(&(a.level, b.key)));
        chosen.into_iter().map(|candidate| candidate.key).collect()
    }
}
