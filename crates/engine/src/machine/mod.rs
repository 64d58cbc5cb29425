//! What huge text gives on this machine: tried once in a boot, and remembered.

mod fastest;
mod remembered;
mod trial;
mod verdict;

use hugetext_host::is_emulated;
use hugetext_leaf::verdict::{Deed, Doubt, LeafUse, Verdict};

pub use fastest::fastest;
use trial::try_machine;
pub use verdict::MachineVerdict;

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
}

/// How text is to be mapped on this machine after `deed`. Where nothing can be remembered, there is no trial, and nothing
/// is known against leaves.
pub fn leaf_use_here(deed: Deed) -> LeafUse {
    let found = MachineVerdict::once().map(|found| found.judgement.verdict);
    LeafUse::of(found.unwrap_or(Verdict::CannotTell), deed)
}
