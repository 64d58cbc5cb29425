//! Decides what to do with one file so that huge leaves map its text.

use hugetext_leaf::Leaf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The treatment of a file, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum PrepareAction {
    /// The file is left.
    Leave {
        /// The reason.
        why: LeaveReason,
    },
    /// Its own page cache is made huge.
    Warm,
    /// An identical file from the store takes its place, because its own page cache cannot be made
    /// huge.
    Copy,
    /// A fixed file from the store takes its place.
    Fix,
}

impl PrepareAction {
    /// One word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            PrepareAction::Leave { .. } => "leave",
            PrepareAction::Warm => "warm",
            PrepareAction::Copy => "copy",
            PrepareAction::Fix => "fix",
        }
    }
}

/// The reason why a file is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaveReason {
    /// Its text holds no window, even after a fix.
    Small,
    /// Its text can be reached only in a copy, but no copy may replace the file. Other users may
    /// write the file, or it changes the user or has capabilities.
    Irreplaceable,
    /// A fixed copy could be reached, but something checks the bytes of the file at each use.
    Vouched,
    /// A fix would be refused, so that nothing is known to help.
    Refused,
    /// A copy could be reached, but there is no place for copies.
    #[serde(rename = "homeless")]
    NoPlace,
    /// Its control group allows too little memory to hold its text in whole windows.
    Cramped,
    /// Programs of many system calls lose by leaves on this machine, and nothing else keeps leaves away.
    HarmfulLeaves,
}

/// When a copy is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyUse {
    /// There is no place for copies.
    Never,
    /// Where the file itself cannot be warmed.
    IfNeeded,
    /// Even if the file itself could be warmed.
    Preferred,
}

/// The facts of the decision. Figures are bytes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareFacts {
    /// Text in windows before a fix.
    pub now: u64,
    /// Text in windows after a fix.
    pub fixed: u64,
    /// Whether the page cache of its filesystem holds huge folios on this kernel.
    pub holds_huge: bool,
    /// Whether a copy may be shown in its place.
    pub may_stand_in: bool,
    /// Whether a fix must not be made.
    pub refused: bool,
    /// Whether something checks its bytes at each use, so that only an identical copy is of use.
    pub vouched: bool,
    /// When a copy is used.
    pub copies: CopyUse,
    /// Whether the command gets a copy of its own, even if only to have it near or with its own lock.
    pub replica: bool,
}

/// Decides about one file.
pub fn decide_action(facts: PrepareFacts, leaf: Leaf) -> PrepareAction {
    let worth_a_fix = facts.fixed.saturating_sub(facts.now) >= leaf.bytes();
    if facts.replica && facts.may_stand_in && facts.copies != CopyUse::Never {
        return if worth_a_fix && !facts.vouched {
            PrepareAction::Fix
        } else {
            PrepareAction::Copy
        };
    }
    let wanted = if worth_a_fix && !facts.vouched {
        PrepareAction::Fix
    } else if facts.now == 0 {
        let why = match (worth_a_fix, facts.refused) {
            (true, _) => LeaveReason::Vouched,
            (false, true) => LeaveReason::Refused,
            (false, false) => LeaveReason::Small,
        };
        return PrepareAction::Leave { why };
    } else if facts.holds_huge && facts.copies != CopyUse::Preferred {
        return PrepareAction::Warm;
    } else {
        PrepareAction::Copy
    };
    let obstacle = match facts.copies {
        _ if !facts.may_stand_in => LeaveReason::Irreplaceable,
        CopyUse::Never => LeaveReason::NoPlace,
        CopyUse::IfNeeded | CopyUse::Preferred => return wanted,
    };
    if facts.holds_huge && facts.now > 0 {
        PrepareAction::Warm
    } else {
        PrepareAction::Leave { why: obstacle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn facts(now: u64, fixed: u64) -> PrepareFacts {
        PrepareFacts {
            now,
            fixed,
            holds_huge: true,
            may_stand_in: true,
            refused: false,
            vouched: false,
            copies: CopyUse::IfNeeded,
            replica: false,
        }
    }

    #[test]
    fn a_replica_is_made_of_small_and_warm_files_too() {
        let replica = |now, fixed| PrepareFacts {
            replica: true,
            ..facts(now, fixed)
        };
        let decide = |facts| decide_action(facts, Leaf::M2);
        assert_eq!(decide(replica(0, 0)), PrepareAction::Copy);
        assert_eq!(decide(replica(8 * M, 8 * M)), PrepareAction::Copy);
        assert_eq!(decide(replica(0, 8 * M)), PrepareAction::Fix);
        let original = PrepareFacts {
            may_stand_in: false,
            ..replica(8 * M, 8 * M)
        };
        assert_eq!(decide(original), PrepareAction::Warm);
    }

    fn leave(why: LeaveReason) -> PrepareAction {
        PrepareAction::Leave { why }
    }

    #[test]
    fn the_weakest_action_that_reaches_the_text_is_taken() {
        let decide = |facts| decide_action(facts, Leaf::M2);
        assert_eq!(decide(facts(0, 0)), leave(LeaveReason::Small));
        let refused = PrepareFacts {
            refused: true,
            ..facts(0, 0)
        };
        assert_eq!(decide(refused), leave(LeaveReason::Refused));
        assert_eq!(decide(facts(8 * M, 8 * M)), PrepareAction::Warm);
        assert_eq!(decide(facts(8 * M, 0)), PrepareAction::Warm);
        assert_eq!(decide(facts(0, 8 * M)), PrepareAction::Fix);
        assert_eq!(decide(facts(8 * M, 9 * M)), PrepareAction::Warm);
        let small_folios = PrepareFacts {
            holds_huge: false,
            ..facts(8 * M, 8 * M)
        };
        assert_eq!(decide(small_folios), PrepareAction::Copy);
        let preferred = PrepareFacts {
            copies: CopyUse::Preferred,
            ..facts(8 * M, 8 * M)
        };
        assert_eq!(decide(preferred), PrepareAction::Copy);
    }

    #[test]
    fn what_is_checked_at_each_use_is_not_fixed() {
        let decide = |facts| decide_action(facts, Leaf::M2);
        let vouched = |now, holds_huge| PrepareFacts {
            vouched: true,
            holds_huge,
            ..facts(now, 16 * M)
        };
        assert_eq!(decide(vouched(4 * M, true)), PrepareAction::Warm);
        assert_eq!(decide(vouched(4 * M, false)), PrepareAction::Copy);
        assert_eq!(decide(vouched(0, true)), leave(LeaveReason::Vouched));
    }

    #[test]
    fn without_a_stand_in_the_file_itself_is_warmed_if_that_helps() {
        let decide = |facts| decide_action(facts, Leaf::M2);
        for (may_stand_in, copies, why) in [
            (false, CopyUse::IfNeeded, LeaveReason::Irreplaceable),
            (true, CopyUse::Never, LeaveReason::NoPlace),
        ] {
            let facts = |now, fixed| PrepareFacts {
                may_stand_in,
                copies,
                ..facts(now, fixed)
            };
            assert_eq!(decide(facts(4 * M, 8 * M)), PrepareAction::Warm);
            assert_eq!(decide(facts(0, 8 * M)), leave(why));
            let small_folios = PrepareFacts {
                holds_huge: false,
                ..facts(8 * M, 8 * M)
            };
            assert_eq!(decide(small_folios), leave(why));
        }
    }
}
