//! Why a file is let go.

use std::fmt;

use hugetext_leaf::hold::Pressure;
use hugetext_metrics::Decision;

use crate::reason::{Cause, Exclusion, Shortage};

/// Why a file is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LetGo {
    /// Tasks wait for memory.
    Stalled(Pressure),
    /// What others need was dropped, and read again.
    Missed,
    /// Another file is in its place.
    Replaced,
    /// It cannot be found, or opened, any more.
    Gone,
    /// The daemon does not act any more.
    Observes,
    /// It saves less than its fill costs.
    NotWorthIt,
    /// Others take what may be held.
    NoRoom,
    /// It is more than may be held now.
    TooLarge(Shortage),
    /// It is not compared with others any more.
    Excluded(Exclusion),
}

/// For readers of the journal.
impl fmt::Display for LetGo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LetGo::Stalled(_) => "memory is short",
            LetGo::Missed => "memory is short: what others need was dropped and read again",
            LetGo::Replaced => "replaced or changed",
            LetGo::Gone => "gone or unreadable",
            LetGo::Observes => "the daemon only observes",
            LetGo::NotWorthIt => "no longer worth it",
            LetGo::NoRoom => "no room: others take what may be held now",
            LetGo::TooLarge(shortage) => {
                return write!(f, "more than may be held now: {shortage}");
            }
            LetGo::Excluded(exclusion) => return exclusion.fmt(f),
        })
    }
}

impl LetGo {
    /// For metrics.
    pub(super) fn decision(self) -> Decision {
        let cause = match self {
            LetGo::Stalled(_) | LetGo::Missed => Cause::Pressure,
            LetGo::Replaced => Cause::Replaced,
            LetGo::Gone => Cause::Gone,
            LetGo::Observes => Cause::Observes,
            LetGo::NotWorthIt => Cause::NotWorthIt,
            LetGo::NoRoom => Cause::NoRoom,
            LetGo::TooLarge(shortage) => shortage.cause(),
            LetGo::Excluded(exclusion) => exclusion.cause(),
        };
        let reason = cause.label();
        let decision = "release";
        Decision { decision, reason }
    }
}
