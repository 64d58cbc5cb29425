//! On whose behalf a process runs: its user, and its control group.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use hugetext_host::{Pid, group_of_process, user_of_process};
use hugetext_leaf::hold::Principal;

/// The most control groups whose names are remembered. The rest are one group.
const MOST_GROUPS: usize = 4096;
/// The most processes whose owner is remembered.
const MOST_PROCESSES: usize = 32_768;
/// The most owners read from /proc in a second. All others are those of their parents.
const READS: usize = 100;
/// The time in which so many are read.
const SECOND: Duration = Duration::from_secs(1);

/// The user of processes that ended before anything was known of them or of their parents.
pub(crate) const UNKNOWN_USER: u32 = u32::MAX;

/// The names of control groups, by number. Number 0 is that of all whose name is not remembered.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    numbers: HashMap<String, u64>,
    names: BTreeMap<u64, String>,
    next: u64,
}

impl Groups {
    /// The number of a control group.
    pub(crate) fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.numbers.len() >= MOST_GROUPS {
            return 0;
        }
        self.next = self.next.saturating_add(1);
        self.numbers.insert(name.to_owned(), self.next);
        self.names.insert(self.next, name.to_owned());
        self.next
    }

    /// The name of a control group; empty for those that are not remembered.
    pub(crate) fn name(&self, number: u64) -> &str {
        self.names.get(&number).map_or("", String::as_str)
    }

    /// Forgets all control groups but `used`, once there are many: each container has one.
    pub(crate) fn retain(&mut self, used: &BTreeSet<u64>) {
        if self.numbers.len() > MOST_GROUPS / 2 {
            self.numbers.retain(|_, number| used.contains(number));
            self.names.retain(|number, _| used.contains(number));
        }
    }
}

/// The owners of processes, for those that end before they are looked at. A child has that of its parent until it is
/// read. A process may be moved to another control group at any time, as `runc init` is before it executes the
/// program of a container, so each look reads again.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The names of their control groups.
    pub groups: Groups,
    of: HashMap<Pid, Owner>,
    ended: Vec<Pid>,
    /// The number of this batch of reports.
    batch: u64,
    /// Since when `reads` are counted.
    since: Duration,
    reads: usize,
}

/// The owner of a process, and the batch of reports in which it was read; 0 if it is that of its parent.
#[derive(Debug, Clone, Copy)]
struct Owner {
    principal: Principal,
    read: u64,
}

impl Owners {
    /// `parent` has a new child.
    pub(crate) fn fork(&mut self, parent: Pid, child: Pid) {
        if let Some(owner) = self.of.get(&parent).copied()
            && self.of.len() < MOST_PROCESSES
        {
            self.of.insert(child, Owner { read: 0, ..owner });
        }
    }

    /// A process has ended. Reports of several processors come in no order, so its owner is known until
    /// [`Owners::settle`].
    pub(crate) fn exit(&mut self, pid: Pid) {
        self.ended.push(pid);
    }

    /// Forgets the processes that have ended. Called after each batch of reports.
    pub(crate) fn settle(&mut self, now: Duration) {
        for pid in self.ended.drain(..) {
            self.of.remove(&pid);
        }
        // Ends may be lost. Then everything is read again.
        if self.of.len() >= MOST_PROCESSES {
            self.of.clear();
        }
        self.batch = self.batch.saturating_add(1);
        if now.saturating_sub(self.since) >= SECOND {
            (self.since, self.reads) = (now, 0);
        }
    }

    /// The owner of a process, which may have ended.
    pub(crate) fn of(&mut self, pid: Pid) -> Principal {
        let known = self.of.get(&pid).copied();
        // It maps several files in a row, and has one owner meanwhile.
        let stays = |owner: &Owner| owner.read > self.batch || self.reads >= READS;
        if let Some(owner) = known.filter(stays) {
            return owner.principal;
        }
        self.reads = self.reads.saturating_add(1);
        let unknown = Principal {
            user: UNKNOWN_USER,
            group: 0,
        };
        let known = known.map(|owner| owner.principal);
        let principal = self.read(pid).or(known).unwrap_or(unknown);
        if self.of.len() < MOST_PROCESSES {
            let read = self.batch.saturating_add(1);
            self.of.insert(pid, Owner { principal, read });
        }
        principal
    }

    fn read(&mut self, pid: Pid) -> Option<Principal> {
        let group = group_of_process(pid)?;
        Some(Principal {
            user: user_of_process(pid, Some(&group))?,
            group: self.groups.number(&group),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_its_parents_until_it_is_read_and_after_it_has_ended() {
        let mut owners = Owners::default();
        let own = Pid::own();
        let principal = owners.of(own);
        assert_ne!(principal.user, UNKNOWN_USER);
        // The limit itself is never given.
        let child = Pid::from_raw(1 << 22).unwrap();
        owners.fork(own, child);
        owners.exit(child);
        assert_eq!(owners.of(child), principal);
        owners.settle(SECOND);
        assert_eq!(owners.of(child).user, UNKNOWN_USER);
    }

    #[test]
    fn a_process_that_was_moved_is_read_again() {
        let mut owners = Owners::default();
        let own = Pid::own();
        let (user, group) = (owners.of(own).user, owners.groups.number("/before"));
        let principal = Principal { user, group };
        let before = |read| Owner { principal, read };
        owners.of.insert(own, before(owners.batch));
        assert_ne!(owners.of(own).group, group);
    }

    #[test]
    fn a_process_is_read_once_for_all_that_it_maps_and_few_are_read_in_a_second() {
        let mut owners = Owners::default();
        let own = Pid::own();
        for _ in 0..1000 {
            owners.of(own);
        }
        assert_eq!(owners.reads, 1);
        // In batches that come fast, each with a new child.
        for number in 0..1000 {
            let child = Pid::from_raw((1 << 22) - number).unwrap();
            owners.settle(SECOND / 2);
            owners.fork(own, child);
            assert_eq!(owners.of(child), owners.of(own));
        }
        assert_eq!(owners.reads, READS);
        owners.settle(2 * SECOND);
        owners.of(own);
        assert_eq!(owners.reads, 1);
    }

    #[test]
    fn names_of_groups_are_bounded() {
        let mut groups = Groups::default();
        for number in 0..2 * MOST_GROUPS {
            groups.number(&format!("/docker/{number}"));
        }
        assert_eq!(groups.names.len(), MOST_GROUPS);
        assert_eq!(groups.number("/new"), 0);
        groups.retain(&BTreeSet::from([1]));
        assert_eq!(groups.name(1), "/docker/0");
        assert_ne!(groups.number("/new"), 0);
    }
}
