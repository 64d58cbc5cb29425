//! What the machine adds to a result.

use hugetext_engine::MachineVerdict;
use hugetext_leaf::verdict::Verdict;

/// What was found of this machine earlier, if anything was.
pub fn verdict_of(found: Option<&MachineVerdict>) -> Option<Verdict> {
    found.map(|found| found.judgement.verdict)
}

/// The verdict about this machine, if it was found since it booted.
pub fn of_this_host() -> Option<Verdict> {
    verdict_of(MachineVerdict::remembered().as_ref())
}

/// A sentence about what runs for long, where what starts gains.
pub fn in_long_runs(verdict: Option<Verdict>) -> Option<&'static str> {
    match verdict? {
        Verdict::WorthIt => Some("Long runs gain too on this host."),
        Verdict::StartsOnly => Some("No gain is expected in long runs on this host."),
        Verdict::Harmful => Some(
            "No gain is expected in long runs on this host, and programs of many system calls lose by leaves.",
        ),
        Verdict::CannotTell => None,
    }
}

/// The same about a process that runs already, whose start is over.
pub(super) fn while_it_runs(verdict: Option<Verdict>) -> Option<&'static str> {
    match verdict? {
        Verdict::WorthIt => Some("On this host, text that runs gains by them."),
        Verdict::StartsOnly => {
            Some("On this host only starts gain by them; what runs already does not.")
        }
        Verdict::Harmful => Some(
            "On this host only starts gain by them; what runs already does not, and programs of many system calls lose.",
        ),
        Verdict::CannotTell => None,
    }
}
