//! How many bytes may be held: the budget, what is left on the machine, and pressure.

use std::time::Duration;

/// A stall on memory that the kernel reported (PSI, Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Some tasks waited for memory.
    Some,
    /// All tasks waited for memory.
    Full,
}

impl Pressure {
    /// The shortest window in which the kernel counts a wait.
    pub const WINDOW: Duration = Duration::from_millis(500);

    /// The part of a window that tasks must wait for a report.
    pub const fn share(self) -> f64 {
        match self {
            Pressure::Some => 0.1,
            Pressure::Full => 0.05,
        }
    }

    /// The least time that tasks have waited when the kernel reports it.
    pub fn least(self) -> Duration {
        Pressure::WINDOW.mul_f64(self.share())
    }
}

/// The memory of a machine, and what the administrator allows of it. All numbers are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// What the administrator allows.
    pub budget: u64,
    /// The lowest limit of the control groups of whoever holds; `None` if there is none.
    pub limit: Option<u64>,
    /// What programs can still take without anything being swapped (MemAvailable in /proc/meminfo),
    /// which does not count what is locked.
    pub available: u64,
    /// What is held now.
    pub held: u64,
}

impl Ceiling {
    /// The most bytes to hold: the budget, at most a third of a limit, since the kernel kills whoever
    /// reaches it, and at most a quarter of what would be free if nothing was held, so that a machine
    /// that fills up gets its memory back before it runs out.
    pub fn bytes(&self) -> u64 {
        self.least().0
    }

    /// What makes it no higher.
    pub fn bound(&self) -> Bound {
        self.least().1
    }

    fn least(&self) -> (u64, Bound) {
        let third = self.limit.map_or(u64::MAX, |limit| limit / 3);
        let quarter = self.available.saturating_add(self.held) / 4;
        let budget = (self.budget, Bound::Budget);
        budget
            .min((third, Bound::GroupLimit))
            .min((quarter, Bound::FreeMemory))
    }
}

/// What bounds the bytes that may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// What the administrator allows.
    Budget,
    /// The limit of a control group of whoever holds.
    GroupLimit,
    /// What is left of the machine's memory.
    FreeMemory,
    /// Memory was short, and what may be held rises again in steps.
    Recovery,
}

/// The bytes that may be held now. It falls at once, and rises in steps when it has been calm. Free memory trembles
/// all the time: memory is short only once the allowance has fallen by more than an eighth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    bytes: u64,
    /// The bytes when it last rose, or when memory was last short.
    peak: u64,
    /// When that was.
    changed: Duration,
    /// How long it must be calm before it rises.
    patience: Duration,
    /// Until then nothing more is taken.
    rests: Duration,
}

impl Allowance {
    /// After it fell, it must be calm for this long before it rises.
    pub const CALM: Duration = Duration::from_secs(60);
    /// The time between two steps up.
    pub const STEP: Duration = Duration::from_secs(10);
    /// After a stall that is no shortage, nothing more is taken for this long.
    pub const REST: Duration = Duration::from_secs(5);

    /// All that `ceiling` allows.
    pub fn new(ceiling: u64, now: Duration) -> Allowance {
        Allowance {
            bytes: ceiling,
            peak: ceiling,
            changed: now,
            patience: Allowance::STEP,
            rests: now,
        }
    }

    /// The bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// What makes it no higher under a ceiling. It may lie below that by an eighth without a reason.
    pub fn bound(self, ceiling: &Ceiling) -> Bound {
        let most = ceiling.bytes();
        if self.bytes < most.saturating_sub(most / 8) {
            Bound::Recovery
        } else {
            ceiling.bound()
        }
    }

    /// Whether it waits only because tasks stalled although memory was plenty.
    pub fn rests(self, now: Duration) -> bool {
        now < self.rests
            && Allowance {
                rests: Duration::ZERO,
                ..self
            }
            .is_calm(now)
    }

    /// Whether more may be taken as soon as it is worth it.
    pub fn is_calm(self, now: Duration) -> bool {
        let has_recovered =
            self.patience == Allowance::STEP || now.saturating_sub(self.changed) >= self.patience;
        has_recovered && now >= self.rests
    }

    /// After a stall that is no shortage: all that is held stays, and nothing more is taken for a while.
    pub fn rest(self, now: Duration) -> Allowance {
        Allowance {
            rests: now.saturating_add(Allowance::REST),
            ..self
        }
    }

    /// Under pressure: half of what is held stays, or nothing if everything stood still.
    pub fn under(self, pressure: Pressure, held: u64, now: Duration) -> Allowance {
        let bytes = match pressure {
            Pressure::Some => self.bytes.min(held) / 2,
            Pressure::Full => 0,
        };
        self.short(bytes, now)
    }

    /// Memory is short, and `bytes` may be held.
    fn short(self, bytes: u64, now: Duration) -> Allowance {
        Allowance {
            bytes,
            peak: bytes,
            changed: now,
            patience: Allowance::CALM,
            ..self
        }
    }

    /// Without pressure, under a ceiling that may have moved. It rises by an eighth of the ceiling, and
    /// not for less. A ceiling that trembles by less makes it no less calm.
    pub fn follow(self, ceiling: u64, now: Duration) -> Allowance {
        if ceiling >= self.bytes {
            return self.rise(ceiling, now);
        }
        if self.peak.saturating_sub(ceiling) > self.peak / 8 {
            return self.short(ceiling, now);
        }
        Allowance {
            bytes: ceiling,
            ..self
        }
    }

    /// Below a ceiling, when it has been calm.
    fn rise(self, ceiling: u64, now: Duration) -> Allowance {
        let step = ceiling / 8;
        let is_due = now.saturating_sub(self.changed) >= self.patience;
        if !is_due || step == 0 || ceiling.saturating_sub(self.bytes) < step {
            return self;
        }
        let bytes = self.bytes.saturating_add(step).min(ceiling);
        Allowance {
            bytes,
            peak: bytes,
            changed: now,
            patience: Allowance::STEP,
            ..self
        }
    }
}
