//! What a fix would do, and what the user should know about it.

use hugetext_elf::{Plan, Refusal};
use hugetext_leaf::{Cause, ColdStart, Geometry, Leaf};

use crate::voucher::Voucher;

/// What a fix would do.
#[derive(Debug)]
pub struct FixDecision {
    /// Bytes of text.
    pub text: u64,
    /// The part of it within reach before; it holds for this kernel and loader.
    pub reached_before: u64,
    /// The leaf that the layout is for.
    pub leaf: Leaf,
    /// The plan, or the reason that no plan exists.
    pub proposal: Result<FixPlan, Refusal>,
}

/// A plan, and what it would give.
#[derive(Debug)]
pub struct FixPlan {
    /// The plan.
    pub plan: Plan,
    /// Text bytes within reach afterwards.
    pub reached_after: u64,
    /// Whether the layout needs no change.
    pub done_already: bool,
    /// What glibc.elf.thp gives on a cold start afterwards.
    pub cold_start: ColdStart,
    /// The readahead of the device of the old file in bytes, if it is so long that fewer windows are huge then.
    pub long_readahead: Option<u64>,
}

/// What the user should know about a fix.
#[derive(Debug)]
pub enum FixNote {
    /// The old content stays under this number of other hard links.
    OtherLinks(u64),
    /// The copy goes without the set-id bits or capabilities of the file.
    PrivilegesLeftOut,
    /// No kernel that runs the program has this geometry.
    ImpossibleGeometry(Geometry),
    /// Profiles and core dumps of before have names with the old file alone.
    OldTraces {
        /// Whether it is kept.
        kept: bool,
    },
    /// The filesystem cannot hold the folios that the layout is for.
    Obstacle(Cause),
    /// Something keeps a checksum of the file.
    Vouched(Voucher),
}
