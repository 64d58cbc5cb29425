//! Why a file is let go.

use hugetext_leaf::hold::Pressure;
use hugetext_metrics::Decision;

/// Why a file is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LetGo {
    /// Tasks wait for memory.
    Stalled(Pressure),
    /// What others need was dropped, and read again.
    Missed,
    /// A control group that runs it is at its limit.
    GroupShort,
    /// Another file is in its place.
    Replaced,
    /// It cannot be found, or opened, any more.
    Gone,
    /// The daemon does not act any more.
    Observes,
    /// It saves less than its fill costs.
    NotWorthIt,
    /// Others are worth more.
    Others,
    /// A rule denies it, or nobody runs it any more.
    Denied,
}

impl LetGo {
    /// For readers of the journal.
    pub(super) fn words(self) -> &'static str {
        match self {
            LetGo::Stalled(_) => "memory is short",
            LetGo::Missed => "memory is short: what others need was dropped and read again",
            LetGo::GroupShort => "its control group is short of memory",
            LetGo::Replaced => "replaced or changed",
            LetGo::Gone => "gone or unreadable",
            LetGo::Observes => "the daemon only observes",
            LetGo::NotWorthIt => "no longer worth it",
            LetGo::Others => "others are worth more",
            LetGo::Denied => "denied or forgotten",
        }
    }

    /// For metrics.
    pub(super) fn decision(self) -> Decision {
        let reason = match self {
            LetGo::Stalled(_) | LetGo::Missed => "pressure",
            LetGo::GroupShort => "cgroup_pressure",
            LetGo::Replaced => "replaced",
            LetGo::Gone => "gone",
            LetGo::Observes => "observes",
            LetGo::NotWorthIt => "not_worth_it",
            LetGo::Others => "no_room",
            LetGo::Denied => "denied",
        };
        let decision = "release";
        Decision { decision, reason }
    }
}
