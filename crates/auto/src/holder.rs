//! What is held now, and what waits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use hugetext_engine::HeldText;

use crate::catalog::{FileText, Key};
use crate::reason::Hindrance;
use crate::text::Filled;
use crate::work_queue::Wait;

/// All that is held, and all that waits.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    held: BTreeMap<Key, Filled>,
    waits: BTreeMap<Key, (Wait, Hindrance)>,
    /// What was tried before is not tried again before.
    retry: Duration,
}

/// Tries that come again take at most this part of one processor.
const RETRIES: u32 = 500;
/// But come at least so often.
const LONGEST_REST: Duration = Duration::from_secs(20);

impl Holder {
    /// Bytes locked.
    pub(crate) fn bytes(&self) -> u64 {
        let held = self.held.values().filter_map(|filled| filled.held.as_ref());
        held.map(HeldText::bytes).sum()
    }

    /// Files held.
    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        self.held.keys().copied().collect()
    }

    /// What is held of a file.
    pub(crate) fn get(&self, key: Key) -> Option<&Filled> {
        self.held.get(&key)
    }

    /// Until when a file waits, and why.
    pub(crate) fn wait(&self, key: Key) -> Option<&(Wait, Hindrance)> {
        self.waits.get(&key)
    }

    /// Whether a file may be filled now: it is not held in this state, and does not wait. If processes that ran it
    /// were in the way, and it `is_idle` now, then it waits no longer.
    pub(crate) fn wants(&self, key: Key, text: &FileText, now: Duration, is_idle: bool) -> bool {
        let held = self.held.get(&key);
        let is_done = held.is_some_and(|held| held.state == text.state && held.obstacle.is_none());
        let Some((wait, _)) = self.waits.get(&key) else {
            return !is_done;
        };
        !is_done && self.may_retry(now) && (wait.until <= now || is_idle)
    }

    /// Until when a file waits that was tried before, and why.
    pub(crate) fn hindrance(&self, key: Key) -> Option<(Duration, &Hindrance)> {
        let (wait, why) = self.waits.get(&key)?;
        Some((wait.until.max(self.retry), why))
    }

    /// Whether anything may be tried again that was tried before.
    pub(crate) fn may_retry(&self, now: Duration) -> bool {
        now >= self.retry
    }

    /// Takes what was filled. What is left is tried again later.
    pub(crate) fn take(&mut self, filled: Filled, now: Duration) {
        let key = filled.key;
        match &filled.obstacle {
            Some(obstacle) => {
                self.delay(key, obstacle.clone(), now);
                let rest = filled.cost.saturating_mul(RETRIES).min(LONGEST_REST);
                self.retry = self.retry.max(now).saturating_add(rest);
            }
            None => drop(self.waits.remove(&key)),
        }
        match filled.held {
            Some(_) => drop(self.held.insert(key, filled)),
            None => drop(self.held.remove(&key)),
        }
    }

    /// Lets a file wait, each time for longer.
    pub(crate) fn delay(&mut self, key: Key, why: Hindrance, now: Duration) {
        let wait = Wait::after(self.waits.get(&key).map(|(wait, _)| wait), now);
        self.waits.insert(key, (wait, why));
    }

    /// Gives up a file, and returns where it was opened, and its bytes: its memory is unlocked at once, and the kernel may reclaim it. Of a file that
    /// was replaced, the kernel frees it when its last user ends.
    pub(crate) fn release(&mut self, key: Key) -> Option<(PathBuf, u64)> {
        let filled = self.held.remove(&key)?;
        let bytes = filled.held.as_ref().map(HeldText::bytes)?;
        Some((filled.path, bytes))
    }

    /// A file is another one by now, or gone.
    pub(crate) fn forget(&mut self, key: Key) {
        self.held.remove(&key);
        self.waits.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work_queue::LONGEST_WAIT;

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

    #[test]
    fn what_many_files_cost_again_and_again_is_bounded() {
        let mut holder = Holder::default();
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let cost = Duration::from_millis(20);
        let (mut now, mut spent) = (Duration::ZERO, Duration::ZERO);
        // All are idle all the time, and none of them ever becomes huge.
        while now < hour {
            for key in 0..500 {
                if now > Duration::ZERO && !holder.may_retry(now) {
                    break;
                }
                holder.take(Filled::failed(key, Hindrance::NoAnswer, cost), now);
                spent += cost;
            }
            now += second;
        }
        // The first tries, and a five hundredth of the time.
        assert!(spent <= 500 * cost + hour / 500 + cost, "{spent:?}");
    }
}
