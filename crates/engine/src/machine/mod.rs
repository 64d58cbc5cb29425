//! What huge text gives on this machine: tried once in a boot, and remembered.

mod fastest;
mod remembered;
mod trial;

use hugetext_host::{is_emulated, platform};
use hugetext_leaf::verdict::{Change, Deed, Doubt, Judgement, LeafUse, Platform, Verdict, changes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fastest::fastest;
use trial::try_machine;

/// What huge text gives on this machine, and what would change it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MachineVerdict {
    /// The verdict, and the times that it rests on.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The processor, and what runs this kernel as a guest.
    pub platform: Platform,
    /// What would change the verdict, the likeliest first.
    pub changes: Vec<Change>,
}

impl MachineVerdict {
    /// Tries the machine now, and remembers the verdict.
    pub fn now() -> MachineVerdict {
        let found = MachineVerdict::of(try_machine());
        // Others may share the place with an emulator, or with a container without /sys, and see the machine itself.
        let is_of_machine = !matches!(found.judgement.doubt, Some(Doubt::Emulated | Doubt::NoSys));
        if is_of_machine {
            // Without a place for it, the next one tries again.
            let _ = remembered::write(&found);
        }
        found
    }

    /// What was found since the machine has booted; `None` if nothing was, or if it cannot be trusted.
    pub fn remembered() -> Option<MachineVerdict> {
        remembered::read()
    }

    /// What was found since the machine has booted, or otherwise what a trial finds now.
    pub fn this() -> MachineVerdict {
        MachineVerdict::remembered().unwrap_or_else(MachineVerdict::now)
    }

    /// The same for who asks at each start of a program. Where nothing can be remembered, there is no trial and no
    /// verdict.
    pub fn once() -> Option<MachineVerdict> {
        let may_try = || !is_emulated() && remembered::has_place();
        let tried = || may_try().then(MachineVerdict::now);
        MachineVerdict::remembered().or_else(tried)
    }

    fn of(judgement: Judgement) -> MachineVerdict {
        let platform = platform();
        MachineVerdict {
            changes: changes(&judgement, platform),
            judgement,
            platform,
        }
    }

    /// Whether programs of many system calls lose by leaves here.
    pub fn is_harmful(&self) -> bool {
        self.judgement.verdict == Verdict::Harmful
    }
}

/// How text is to be mapped on this machine after `deed`. Where nothing can be remembered, there is no trial, and nothing
/// is known against leaves.
pub fn leaf_use_here(deed: Deed) -> LeafUse {
    let found = MachineVerdict::once().map(|found| found.judgement.verdict);
    LeafUse::of(found.unwrap_or(Verdict::CannotTell), deed)
}
