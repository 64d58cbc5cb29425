//! Decides what to hold, and gives up what is not to be held.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_engine::HeldText;
use hugetext_host::is_memory_limited;
use hugetext_leaf::hold::{
    Candidate, Ceiling, MemoryEvents, Pressure, Principal, Refusal, StallCause, Supply, choose,
    give_up,
};

use super::let_go::LetGo;
use super::{Daemon, GROUPS, LIMIT};
use crate::catalog::{FileText, Key, Known};
use crate::charge::Lockable;
use crate::config::Mode;
use crate::memory::{Memory, StallReport, memory_events};
use crate::processor::own_time;
use crate::reason::Exclusion;
use crate::text::Fill;

/// Decisions for what was seen take at most this part of one processor,
const DECISIONS: u32 = 1000;
/// and come at least so often.
const UNHURRIED: Duration = Duration::from_secs(10);
/// After its control group was at a limit, what it runs is left alone for this long.
const GROUP_CALM: Duration = Duration::from_secs(60);

/// The directory in /proc of the process through which a file was opened.
fn of_process(path: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix("/proc").ok()?;
    Some(Path::new("/proc").join(inside.components().next()?))
}

impl Daemon<'_> {
    /// The most bytes to hold now, without regard to pressure.
    pub(super) fn ceiling(&mut self) -> u64 {
        let fresh = self.limit.filter(|(at, _)| at.elapsed() < LIMIT);
        let read = || {
            (
                Instant::now(),
                hugetext_host::memory_limit().unwrap_or(None),
            )
        };
        let (_, limit) = *self.limit.insert(fresh.unwrap_or_else(read));
        let ceiling = Ceiling {
            budget: self.config.budget.bytes(self.memory.total),
            limit,
            available: self.memory.available,
            held: self.held(),
        };
        self.ceiling = ceiling;
        ceiling.bytes()
    }

    /// Yields at once if tasks stall for memory. It only rests if memory is plenty: then the stalls
    /// may be its own, of filling huge folios, and others would gain nothing by what it gives up.
    pub(super) fn feel(&mut self) {
        if self.limits.has_news() {
            self.feel_groups();
            // Decides in this round, and not when the next decision is due.
            self.decided = None;
        }
        let Some(StallReport { pressure, at }) = self.stalled.take() else {
            return;
        };
        self.memory = Memory::read().unwrap_or(self.memory);
        match StallCause::between(pressure, self.events, memory_events(), self.supply()) {
            StallCause::Unfounded => return,
            StallCause::Plenty => {
                self.stalls.plenty = self.stalls.plenty.saturating_add(1);
                self.allowance = self.allowance.rest(self.now());
                self.fills.clear();
                return;
            }
            StallCause::Shortage => {}
        }
        let count = match pressure {
            Pressure::Some => &mut self.stalls.some,
            Pressure::Full => &mut self.stalls.full,
        };
        *count = count.saturating_add(1);
        if pressure == Pressure::Full {
            self.promoter.give_back();
        }
        self.yield_under(pressure, LetGo::Stalled(pressure));
        let took = u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stalls.slowest_us = self.stalls.slowest_us.max(took);
    }

    fn supply(&self) -> Supply {
        Supply {
            total: self.memory.total,
            available: self.memory.available,
            held: self.held(),
        }
    }

    /// Yields if others read again what they need, though nobody waits long for it.
    fn feel_misses(&mut self) {
        let before = std::mem::replace(&mut self.events, memory_events());
        if MemoryEvents::miss(before, self.events, self.page, self.supply()) {
            self.stalls.missed = self.stalls.missed.saturating_add(1);
            self.yield_under(Pressure::Some, LetGo::Missed);
        }
    }

    fn yield_under(&mut self, pressure: Pressure, why: LetGo) {
        self.allowance = self.allowance.under(pressure, self.held(), self.now());
        self.fills.clear();
        self.give_up(why);
        self.allow_lists();
        self.changed = true;
    }

    /// Gives up what is more than allowed, least valuable first.
    fn give_up(&mut self, why: LetGo) {
        let held = self.holder.keys();
        let held: Vec<Candidate<Key>> = self
            .candidates
            .iter()
            .filter(|candidate| held.contains(&candidate.key))
            .cloned()
            .collect();
        for key in give_up(&held, self.allowed()) {
            self.release(key, why);
        }
    }

    /// What was seen goes first; the lists follow if that is not enough.
    fn allow_lists(&mut self) {
        let bytes = self.allowance.bytes();
        if let Some(keeper) = &mut self.keeper {
            keeper.allow(bytes);
        }
    }

    /// Follows memory, and decides anew if anything has changed.
    pub(super) fn decide(&mut self) {
        let now = self.now();
        self.memory = Memory::read().unwrap_or(self.memory);
        self.feel_misses();
        self.release_ended();
        self.count_rushes();
        let ceiling = self.ceiling();
        let allowance = self.allowance.follow(ceiling, now);
        self.changed |= allowance != self.allowance;
        self.allowance = allowance;
        self.allow_lists();
        if self.felt_groups.is_none_or(|at| at.elapsed() >= GROUPS) {
            self.feel_groups();
        }
        // Evidence fades even if nothing happens, and what waits comes due.
        let is_due = self.due.is_none_or(|due| now >= due)
            || (self.evidence && now >= self.unhurried)
            || self.holder.may_retry(now) && !self.runs.idle(now).is_empty();
        if !self.changed && !is_due {
            return;
        }
        let before = own_time();
        (self.changed, self.evidence) = (false, false);
        self.due = Some(now.saturating_add(Duration::from_secs(30)));
        self.consider();
        self.release_refused();
        self.plan();
        self.watch_idle(now);
        self.watch();
        let took = own_time().saturating_sub(before);
        self.unhurried = now.saturating_add(took.saturating_mul(DECISIONS).min(UNHURRIED));
    }

    /// Makes the candidates and the choice.
    fn consider(&mut self) {
        let time = (self.now(), self.config.half_life());
        let (config, groups, pressed) = (&self.config, &self.owners.groups, &self.pressed);
        let counts = |path: &Path, by: Principal| {
            if pressed.contains_key(&by.group) {
                return Err(Exclusion::GroupShort);
            }
            let denied = config.denies(path, groups.name(by.group));
            denied.map_or(Ok(()), |rule| Err(Exclusion::Denied(rule)))
        };
        (self.candidates, self.excluded) = self.catalog.candidates(&self.costs, time, counts);
        // What the lists hold is held once.
        let (catalog, listed, excluded) = (&self.catalog, &self.listed, &mut self.excluded);
        self.candidates.retain(|candidate| {
            let text = catalog
                .get(candidate.key)
                .and_then(|known| known.text.as_ref());
            let is_listed = |text: &FileText| {
                listed
                    .as_ref()
                    .is_some_and(|(_, held)| held.contains(&text.state))
            };
            let is_listed = text.is_some_and(is_listed);
            if is_listed {
                excluded.insert(candidate.key, Exclusion::Listed);
            }
            !is_listed
        });
        let total = self.memory.total;
        for (number, rule) in self.config.rules.iter().enumerate() {
            let Some(budget) = rule.budget else { continue };
            let of_rule = |candidate: &&Candidate<Key>| {
                let Some(known) = self.catalog.get(candidate.key) else {
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
        let excluded = &self.excluded;
        self.candidates
            .retain(|candidate| !excluded.contains_key(&candidate.key));
        self.choice = choose(&self.candidates, self.allowed());
    }

    /// Gives up the files of containers that were opened through a process which has ended: they keep its mounts.
    fn release_ended(&mut self) {
        for key in self.holder.keys() {
            let known = self.catalog.get(key);
            let path = known.and_then(|known| Some(&known.text.as_ref()?.path));
            let process = path.and_then(|path| of_process(path));
            let has_ended = |process: PathBuf| !process.exists();
            if process.is_some_and(has_ended) {
                self.release(key, LetGo::Gone);
                self.holder.forget(key);
                self.catalog.remove(key);
            }
        }
    }

    /// Gives up what is no longer chosen.
    fn release_refused(&mut self) {
        let keeps = self.mode() == Mode::Act;
        for key in self.holder.keys() {
            if !keeps || !self.choice.held.contains_key(&key) {
                let why = match self.choice.refused.get(&key) {
                    _ if !keeps => LetGo::Observes,
                    Some(Refusal::NotWorthIt) => LetGo::NotWorthIt,
                    Some(Refusal::NoRoom) => LetGo::NoRoom,
                    Some(Refusal::TooLarge) => LetGo::TooLarge(self.shortage(key)),
                    None => match self.excluded.get(&key) {
                        Some(exclusion) => LetGo::Excluded(*exclusion),
                        // It was forgotten, because too much is remembered.
                        None => LetGo::Excluded(Exclusion::NotRun),
                    },
                };
                self.release(key, why);
            }
        }
    }

    /// Plans what to fill, most valuable first. Nothing is taken back before it is calm.
    fn plan(&mut self) {
        self.fills.clear();
        let now = self.now();
        if self.mode() != Mode::Act || !self.allowance.is_calm(now) {
            return;
        }
        let mut chosen: Vec<&Candidate<Key>> = self
            .candidates
            .iter()
            .filter(|candidate| self.choice.held.contains_key(&candidate.key))
            .collect();
        chosen.sort_by(|a, b| (b.level, a.key).cmp(&(a.level, b.key)));
        let filling = self.filling.as_ref().map(|(key, _)| *key);
        for key in chosen.into_iter().map(|candidate| candidate.key) {
            let text = self.catalog.get(key).and_then(|known| known.text.as_ref());
            if let Some(text) = text
                && filling != Some(key)
                && !self.is_blamed(key)
                && self
                    .holder
                    .wants(key, text, now, self.runs.is_idle(key, now))
            {
                let (text, lockable) = (text.clone(), self.lockable(key));
                self.fills.push_back(Fill {
                    key,
                    text,
                    lockable,
                });
            }
        }
    }

    /// A file that is idle, and need not be filled, waits for its next end.
    fn watch_idle(&mut self, now: Duration) {
        let filling = self.filling.as_ref().map(|(key, _)| *key);
        for key in self.runs.idle(now) {
            let is_planned = self.fills.iter().any(|fill| fill.key == key);
            if !is_planned && filling != Some(key) {
                self.runs.watch(key);
            }
        }
    }

    /// What of a file may be locked: a control group with a memory limit that runs it may pay for what is huge
    /// already.
    fn lockable(&self, key: Key) -> Lockable {
        let known = self.catalog.get(key);
        let groups: BTreeSet<u64> = known.into_iter().flat_map(Known::groups).collect();
        let names = groups.iter().map(|group| self.owners.groups.name(*group));
        match is_memory_limited(names) {
            Ok(false) => Lockable::All,
            // What cannot be read may be limited.
            Ok(true) | Err(_) => {
                let held = self.holder.get(key).and_then(|filled| filled.held.as_ref());
                Lockable::Own(held.into_iter().flat_map(HeldText::ranges).collect())
            }
        }
    }

    /// Leaves alone what control groups run that are at a limit.
    fn feel_groups(&mut self) {
        self.felt_groups = Some(Instant::now());
        let now = self.now();
        self.pressed.retain(|_, until| *until > now);
        let held = self.holder.keys();
        let claims = held.iter().filter_map(|key| self.catalog.get(*key));
        let groups: BTreeSet<u64> = claims.flat_map(Known::groups).collect();
        let names = &self.owners.groups;
        let paths = groups.into_iter().map(|group| (group, names.name(group)));
        for group in self.limits.pressed(paths) {
            self.stalls.cgroups = self.stalls.cgroups.saturating_add(1);
            self.pressed.insert(group, now.saturating_add(GROUP_CALM));
            self.changed = true;
        }
    }
}
