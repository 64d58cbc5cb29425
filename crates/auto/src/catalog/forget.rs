//! What is forgotten, so that nothing grows without bound.

use std::collections::{BTreeMap, BTreeSet};

use hugetext_leaf::hold::{
    Candidate, Claim, Costs, Evidence, EvidenceTime, Level, Principal, choose,
};

use super::{Catalog, FileText, Key, Known, MOST_FILES, MOST_PRINCIPALS, worth};
use crate::owners::Groups;

impl Catalog {
    /// Forgets what was seen too long ago and, of too many files, those that are worth least. Each user
    /// and each control group has a fair share of what is remembered, as of what is held. Files that are
    /// `held` stay.
    pub(crate) fn forget(
        &mut self,
        costs: &Costs,
        moment: EvidenceTime,
        held: &BTreeSet<Key>,
        groups: &mut Groups,
    ) {
        for known in self.files.values_mut() {
            known.by.retain(|_, seen| !seen.is_forgotten(moment));
            limit(&mut known.by, moment);
        }
        let is_over = |(key, known): (&Key, &Known)| {
            let is_over = known.by.is_empty();
            (is_over && !held.contains(key)).then_some(*key)
        };
        let mut gone: Vec<Key> = self.files.iter().filter_map(is_over).collect();
        if self.files.len() > MOST_FILES {
            let all = self.to_remember(costs, moment);
            let stays = choose(&all, MOST_FILES as u64 * 9 / 10).held;
            gone.extend(
                self.files
                    .keys()
                    .filter(|key| !stays.contains_key(key) && !held.contains(key)),
            );
        }
        for key in gone {
            self.remove(key);
        }
        let used = self.files.values().flat_map(|known| known.by.keys());
        groups.retain(&used.map(|by| by.group).collect());
    }

    /// All files as candidates for a place in this memory, of which each takes one.
    fn to_remember(&self, costs: &Costs, moment: EvidenceTime) -> Vec<Candidate<Key>> {
        // Everything that saves anything at all is worth a place.
        let costs = Costs {
            fill: 1.0,
            ..*costs
        };
        let files = self.files.iter().map(|(key, known)| {
            let level = |seen: &Evidence| {
                let text = known.text.as_ref();
                let worth = text.map(|text: &FileText| worth(seen, text, &costs, moment));
                Level::follow(None, worth.unwrap_or_default(), &costs)
            };
            let claims: Vec<Claim> = known
                .by
                .iter()
                .map(|(principal, seen)| Claim {
                    principal: *principal,
                    level: level(seen),
                })
                .collect();
            let best = claims.iter().map(|claim| claim.level).max();
            Candidate {
                key: *key,
                bytes: 1,
                level: best.unwrap_or(level(&Evidence::default())),
                claims,
            }
        });
        files.collect()
    }
}

/// Leaves so many principals of a file as are remembered. The user with the most gives up its least
/// one, so that no user pushes out another.
fn limit(by: &mut BTreeMap<Principal, Evidence>, moment: EvidenceTime) {
    while by.len() > MOST_PRINCIPALS {
        let mut of_user: BTreeMap<u32, usize> = BTreeMap::new();
        for principal in by.keys() {
            let number = of_user.entry(principal.user).or_default();
            *number = number.saturating_add(1);
        }
        let most = of_user.into_iter().max_by_key(|(_, number)| *number);
        let Some((user, _)) = most else { return };
        let own = by.iter().filter(|(principal, _)| principal.user == user);
        let least = own.min_by(|(_, a), (_, b)| {
            let starts = |seen: &Evidence| seen.starts.at(moment);
            starts(a).total_cmp(&starts(b))
        });
        let Some(least) = least.map(|(principal, _)| *principal) else {
            return;
        };
        by.remove(&least);
    }
}
