//! What is held now, and what waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hugetext_engine::HeldText;

use crate::catalog::{FileText, Key};
use crate::reason::Hindrance;
use crate::text::Filled;

/// After a failure, the next try waits this long, and twice as long after each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// Until when a file is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Until when.
    pub until: Duration,
    tries: u32,
}

impl Wait {
    /// The next wait after `before`, twice as long.
    pub fn after(before: Option<&Wait>, now: Duration) -> Wait {
        let tries = before.map_or(0, |wait| wait.tries);
        let wait = FIRST_WAIT
            .saturating_mul(1 << tries.min(11))
            .min(LONGEST_WAIT);
        Wait {
            until: now.saturating_add(wait),
            tries: tries.saturating_add(1),
        }
    }
}

/// All that is held, and all that waits.
#[derive(Debug, Default)]
pub struct Holder {
    held: BTreeMap<Key, Filled>,
    waits: BTreeMap<Key, (Wait, Hindrance)>,
}

impl Holder {
    /// Bytes locked.
    pub fn bytes(&self) -> u64 {
        let held = self.held.values().filter_map(|filled| filled.held.as_ref());
        held.map(HeldText::bytes).sum()
    }

    /// Files held.
    pub fn keys(&self) -> BTreeSet<Key> {
        self.held.keys().copied().collect()
    }

    /// What is held of a file.
    pub fn get(&self, key: Key) -> Option<&Filled> {
        self.held.get(&key)
    }

    /// Until when a file waits, and why.
    pub fn wait(&self, key: Key) -> Option<&(Wait, Hindrance)> {
        self.waits.get(&key)
    }

    /// Whether a file may be filled now: it is not held in this state, and does not wait. If processes that ran it
    /// were in the way, and it `is_idle` now, then it waits no longer.
    pub fn wants(&self, key: Key, text: &FileText, now: Duration, is_idle: bool) -> bool {
        let held = self.held.get(&key);
        let is_done = held.is_some_and(|held| held.state == text.state && held.obstacle.is_none());
        let waits = self
            .waits
            .get(&key)
            .is_some_and(|(wait, _)| wait.until > now);
        !is_done && (!waits || is_idle)
    }

    /// Takes what was filled. What is left is tried again later.
    pub fn take(&mut self, filled: Filled, now: Duration) {
        let key = filled.key;
        match &filled.obstacle {
            Some(obstacle) => self.delay(key, obstacle.clone(), now),
            None => drop(self.waits.remove(&key)),
        }
        match filled.held {
            Some(_) => drop(self.held.insert(key, filled)),
            None => drop(self.held.remove(&key)),
        }
    }

    /// Lets a file wait, each time for longer.
    pub fn delay(&mut self, key: Key, why: Hindrance, now: Duration) {
        let wait = Wait::after(self.waits.get(&key).map(|(wait, _)| wait), now);
        self.waits.insert(key, (wait, why));
    }

    /// Gives up a file: its memory is unlocked at once, and the kernel may reclaim it. Of a file that
    /// was replaced, the kernel frees it when its last user ends.
    pub fn release(&mut self, key: Key) -> Option<u64> {
        let filled = self.held.remove(&key)?;
        filled.held.as_ref().map(HeldText::bytes)
    }

    /// A file is another one by now, or gone.
    pub fn forget(&mut self, key: Key) {
        self.held.remove(&key);
        self.waits.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_again_ever_later() {
        let mut holder = Holder::default();
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            holder.delay(1, Hindrance::NoAnswer, Duration::ZERO);
            let until = holder.wait(1).unwrap().0.until;
            assert!(until >= last && until <= LONGEST_WAIT);
            last = until;
        }
        assert_eq!(last, LONGEST_WAIT);
        holder.forget(1);
        assert_eq!(holder.wait(1), None);
    }
}
