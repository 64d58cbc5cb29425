//! Shares the memory that may be held among users and control groups.

use std::collections::{BTreeMap, BTreeSet};

use super::worth::Level;

/// On whose behalf text is executed: a user, and a control group of that user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// The user.
    pub user: u32,
    /// The control group, as a number that its path has.
    pub group: u64,
}

/// What one principal would gain of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Who.
    pub principal: Principal,
    /// How much a window saves this principal alone.
    pub level: Level,
}

/// A file that could be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<K> {
    /// Its name. Of equals, the lower key comes first, so keys are best numbered in the order in which
    /// files were seen: what is new then replaces nothing that is as good.
    pub key: K,
    /// Bytes that holding it takes.
    pub bytes: u64,
    /// What a window saves all principals together.
    pub level: Level,
    /// What it saves each of them.
    pub claims: Vec<Claim>,
}

/// Out of which share a file is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The share of a control group.
    Group,
    /// The share of a user.
    User,
    /// What no share needed.
    Rest,
}

/// Why a file is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It saves less than its fill costs.
    NotWorthIt,
    /// It alone is more than may be held.
    TooLarge,
    /// It would fit, but others take what may be held: they are worth more, or it is their share.
    NoRoom,
}

/// The decision: what to hold, and why not the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<K> {
    /// What to hold, and out of which share.
    pub held: BTreeMap<K, Place>,
    /// What not to hold, and why.
    pub refused: BTreeMap<K, Refusal>,
    /// Bytes of what to hold, at most the bytes that may be held.
    pub bytes: u64,
}

impl<K> Default for Choice<K> {
    /// Nothing is chosen, and nothing refused.
    fn default() -> Choice<K> {
        Choice {
            held: BTreeMap::new(),
            refused: BTreeMap::new(),
            bytes: 0,
        }
    }
}

/// Chooses among `candidates` what to hold in `allowed` bytes.
///
/// They are divided evenly among the users with a claim that is worth it, and the share of each among
/// that user's control groups. Each takes the best for itself out
/// of its own share, and pays for it in full even if others want it too; so no claim of anyone can
/// push out what another holds within a share. Shares that are not used up go to the best of the rest.
///
/// The decision depends on the arguments alone and not on what is held now, so the same input gives the
/// same choice. A file that one of its
/// claimants starts more often can only gain.
pub fn choose<K: Ord + Copy>(candidates: &[Candidate<K>], allowed: u64) -> Choice<K> {
    let mut chosen = Chosen::default();
    let seen: Vec<&Candidate<K>> = candidates.iter().collect();
    let users = groups_of_users(&seen);
    for (user, groups) in &users {
        let share = divided(allowed, users.len());
        let of_group = divided(share, groups.len());
        let mut own = Chosen::default();
        for group in groups {
            // Each group pays for what it takes, also if another group of the user takes it too.
            let mut picked = Chosen::default();
            let claims = claimed(&seen, |by| by.user == *user && by.group == *group);
            picked.fill(Place::Group, claims, of_group);
            own.join(picked, &seen);
        }
        own.fill(Place::User, claimed(&seen, |by| by.user == *user), share);
        chosen.join(own, &seen);
    }
    let all = ranked(seen.iter().map(|c| (*c, c.level)));
    chosen.fill(Place::Rest, all, allowed);
    chosen.into_choice(candidates, allowed)
}

/// What to give up of `held`, least valuable first, so that at most `allowed` bytes stay held. What
/// stays is shared as [`choose`] shares.
pub fn give_up<K: Ord + Copy>(held: &[Candidate<K>], allowed: u64) -> Vec<K> {
    let choice = choose(held, allowed);
    let mut going: Vec<&Candidate<K>> = held
        .iter()
        .filter(|candidate| !choice.held.contains_key(&candidate.key))
        .collect();
    going.sort_by(|a, b| (a.level, b.key).cmp(&(b.level, a.key)));
    going.into_iter().map(|candidate| candidate.key).collect()
}

/// What was chosen so far.
struct Chosen<K> {
    held: BTreeMap<K, Place>,
    bytes: u64,
}

impl<K> Default for Chosen<K> {
    fn default() -> Chosen<K> {
        Chosen {
            held: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<K: Ord + Copy> Chosen<K> {
    /// Takes those that fit in turn, until `room` bytes are taken in all. One that does not fit leaves
    /// its room to the next.
    fn fill<'c>(&mut self, place: Place, ranked: Vec<&'c Candidate<K>>, room: u64)
    where
        K: 'c,
    {
        for candidate in ranked {
            let bytes = self.bytes.saturating_add(candidate.bytes);
            if bytes <= room && !self.held.contains_key(&candidate.key) {
                self.held.insert(candidate.key, place);
                self.bytes = bytes;
            }
        }
    }

    /// Adds what another share holds. What both hold is held once.
    fn join(&mut self, other: Chosen<K>, candidates: &[&Candidate<K>]) {
        for candidate in candidates {
            if let Some(place) = other.held.get(&candidate.key)
                && !self.held.contains_key(&candidate.key)
            {
                self.held.insert(candidate.key, *place);
                self.bytes = self.bytes.saturating_add(candidate.bytes);
            }
        }
    }

    fn into_choice(self, candidates: &[Candidate<K>], allowed: u64) -> Choice<K> {
        let refused = candidates
            .iter()
            .filter(|c| !self.held.contains_key(&c.key));
        let refused = refused.map(|candidate| {
            let refusal = if !candidate.level.is_worth_it() {
                Refusal::NotWorthIt
            } else if candidate.bytes > allowed {
                Refusal::TooLarge
            } else {
                Refusal::NoRoom
            };
            (candidate.key, refusal)
        });
        Choice {
            refused: refused.collect(),
            held: self.held,
            bytes: self.bytes,
        }
    }
}

/// The users with a claim that is worth it, each with the control groups that have one.
fn groups_of_users<K>(candidates: &[&Candidate<K>]) -> BTreeMap<u32, BTreeSet<u64>> {
    let mut users: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let claims = candidates.iter().flat_map(|candidate| &candidate.claims);
    for Claim { principal, .. } in claims.filter(|claim| claim.level.is_worth_it()) {
        let groups = users.entry(principal.user).or_default();
        groups.insert(principal.group);
    }
    users
}

/// One of `parts` equal parts.
fn divided(bytes: u64, parts: usize) -> u64 {
    let parts = u64::try_from(parts).unwrap_or(u64::MAX);
    bytes.checked_div(parts).unwrap_or(0)
}

/// What those principals want, best for them first.
fn claimed<'c, K: Ord + Copy>(
    candidates: &[&'c Candidate<K>],
    by: impl Fn(&Principal) -> bool,
) -> Vec<&'c Candidate<K>> {
    ranked(candidates.iter().filter_map(|candidate| {
        let claims = candidate.claims.iter().filter(|claim| by(&claim.principal));
        let level = claims.map(|claim| claim.level).max()?;
        Some((*candidate, level))
    }))
}

/// Best first: the higher level, then the lower key. What is not worth it is left out.
fn ranked<'c, K: Ord + Copy + 'c>(
    candidates: impl Iterator<Item = (&'c Candidate<K>, Level)>,
) -> Vec<&'c Candidate<K>> {
    let mut ranked: Vec<(&Candidate<K>, Level)> = candidates
        .filter(|(_, level)| level.is_worth_it())
        .collect();
    ranked.sort_by(|(a, best), (b, other)| (other, a.key).cmp(&(best, b.key)));
    ranked.into_iter().map(|(candidate, _)| candidate).collect()
}
