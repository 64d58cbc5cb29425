//! What huge text gives on this machine.

use hugetext_host::platform;
use hugetext_leaf::verdict::{Change, Judgement, Platform, Verdict, changes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// What follows from a judgement about this machine.
    pub(super) fn of(judgement: Judgement) -> MachineVerdict {
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
