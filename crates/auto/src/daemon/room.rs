//! How much memory may be held: what the machine has, and how it fares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hugetext_leaf::Leaf;
use hugetext_leaf::hold::{Allowance, Ceiling, MemoryEvents, Pressure, StallCause, Supply};
use rustix::event::epoll::EventFlags;

use super::events::{DaemonError, system};
use super::terms::Terms;
use super::wake::Wake;
use crate::catalog::FileText;
use crate::memory::{GroupLimits, Memory, StallReport, Stalled, memory_events};
use crate::owners::Groups;
use crate::reason::Shortage;

/// The time between two looks at the limits of control groups.
const GROUPS: Duration = Duration::from_secs(2);
/// The time between two looks at the daemon's own limit.
const LIMIT: Duration = Duration::from_secs(60);
/// After its control group was at a limit, what it runs is left alone for this long.
const GROUP_CALM: Duration = Duration::from_secs(60);

/// How much may be held, and by whose memory limits what must be left alone.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) memory: Memory,
    pub(super) allowance: Allowance,
    /// What might be held without regard to pressure, at the last decision.
    ceiling: Ceiling,
    /// The limit of the daemon's own control group, and when it was read.
    limit: Option<(Instant, Option<u64>)>,
    page: Leaf,
    stalled: Stalled,
    /// What the kernel had counted at the last decision.
    events: MemoryEvents,
    limits: GroupLimits,
    /// Until when the files of a pressed control group are left alone.
    pressed: BTreeMap<u64, Duration>,
    felt_groups: Option<Instant>,
}

impl Room {
    /// Feels from now on. `wake` also ends for stalls, and for control groups at a limit.
    pub(super) fn new(wake: &Wake, page: Leaf) -> Result<Room, DaemonError> {
        let limits = GroupLimits::new().map_err(system("epoll"))?;
        wake.add(&limits, EventFlags::IN).map_err(system("epoll"))?;
        Ok(Room {
            memory: Memory::read().map_err(system("/proc/meminfo"))?,
            allowance: Allowance::new(0, Duration::ZERO),
            ceiling: Ceiling::default(),
            limit: None,
            page,
            stalled: Stalled::hear(wake.handle()),
            events: memory_events(),
            limits,
            pressed: BTreeMap::new(),
            felt_groups: None,
        })
    }

    /// Why stalls cannot be heard of, if they cannot.
    pub(super) fn problem(&self) -> Option<String> {
        self.stalled.problem.clone()
    }

    /// The most bytes to hold now, without regard to pressure.
    pub(super) fn ceiling(&mut self, terms: &Terms, held: u64) -> u64 {
        let fresh = self.limit.filter(|(at, _)| at.elapsed() < LIMIT);
        let read = || {
            let limit = hugetext_host::memory_limit();
            (Instant::now(), limit.unwrap_or(None))
        };
        let (_, limit) = *self.limit.insert(fresh.unwrap_or_else(read));
        self.ceiling = Ceiling {
            budget: terms.config.budget.bytes(self.memory.total),
            limit,
            available: self.memory.available,
            held,
        };
        self.ceiling.bytes()
    }

    /// Begins with all that the machine allows.
    pub(super) fn open(&mut self, ceiling: u64, now: Duration) {
        self.allowance = Allowance::new(ceiling, now);
    }

    /// Reads how much memory there is.
    pub(super) fn read(&mut self) {
        self.memory = Memory::read().unwrap_or(self.memory);
    }

    /// Follows the ceiling; whether more or less may be held than before.
    pub(super) fn follow(&mut self, ceiling: u64, now: Duration) -> bool {
        let allowance = self.allowance.follow(ceiling, now);
        let has_changed = allowance != self.allowance;
        self.allowance = allowance;
        has_changed
    }

    /// Bytes that may be held of what was seen: what the lists and promoted processes hold comes `first`.
    pub(super) fn allowed(&self, first: u64) -> u64 {
        self.allowance.bytes().saturating_sub(first)
    }

    /// What the kernel reported of tasks that wait for memory.
    pub(super) fn report(&self) -> Option<StallReport> {
        self.stalled.take()
    }

    /// Why tasks wait for memory. If it is plenty, nothing is begun for a moment.
    pub(super) fn feel(&mut self, pressure: Pressure, held: u64, now: Duration) -> StallCause {
        self.read();
        let (before, after) = (self.events, memory_events());
        let cause = StallCause::between(pressure, before, after, self.supply(held));
        if cause == StallCause::Plenty {
            self.allowance = self.allowance.rest(now);
        }
        cause
    }

    /// Whether others read again what they need, though nobody waits long for it.
    pub(super) fn is_missed(&mut self, held: u64) -> bool {
        let before = std::mem::replace(&mut self.events, memory_events());
        MemoryEvents::miss(before, self.events, self.page, self.supply(held))
    }

    /// Less may be held from now on.
    pub(super) fn yield_under(&mut self, pressure: Pressure, held: u64, now: Duration) {
        self.allowance = self.allowance.under(pressure, held, now);
    }

    fn supply(&self, held: u64) -> Supply {
        Supply {
            total: self.memory.total,
            available: self.memory.available,
            held,
        }
    }

    /// What makes the bytes that may be held too few for a text.
    pub(super) fn shortage(&self, text: Option<&FileText>) -> Shortage {
        if text.is_some_and(|text| text.bytes() <= self.allowance.bytes()) {
            Shortage::ListsFirst
        } else {
            Shortage::Bound(self.allowance.bound(&self.ceiling))
        }
    }

    /// Whether a control group has reached a limit since the last look.
    pub(super) fn has_news_of_groups(&self) -> bool {
        self.limits.has_news()
    }

    /// Whether it is time to look at the limits of control groups.
    pub(super) fn groups_are_due(&self) -> bool {
        let last = self.felt_groups;
        last.is_none_or(|at| at.elapsed() >= GROUPS)
    }

    /// Leaves alone what these control groups run, if they are at a limit. Returns how many are.
    pub(super) fn feel_groups(
        &mut self,
        groups: &BTreeSet<u64>,
        names: &Groups,
        now: Duration,
    ) -> u64 {
        self.felt_groups = Some(Instant::now());
        self.pressed.retain(|_, until| *until > now);
        let paths = groups.iter().map(|group| (*group, names.name(*group)));
        let mut at_limit = 0u64;
        for group in self.limits.pressed(paths) {
            at_limit = at_limit.saturating_add(1);
            self.pressed.insert(group, now.saturating_add(GROUP_CALM));
        }
        at_limit
    }

    /// Whether what a control group runs is left alone.
    pub(super) fn is_pressed(&self, group: u64) -> bool {
        self.pressed.contains_key(&group)
    }
}
