//! Whether the text of a command is to be mapped by leaves on this machine.

use hugetext_host::{ThpMode, deny_huge_mappings, thp_mode};
use hugetext_leaf::has_leaf_denial;
use hugetext_leaf::verdict::{Deed, LeafUse};

use super::decide::{LeaveReason, PrepareAction};
use super::step::PrepareStep;
use crate::error::Error;
use crate::machine::leaf_use_here;

/// How the text of a command is to be mapped that starts with these files. If nothing is done with any, no trial is made.
pub fn leaf_use_of_start(steps: &[PrepareStep<'_>]) -> LeafUse {
    if steps.iter().all(PrepareStep::is_left) {
        return LeafUse::Leaves;
    }
    let obeys = steps.iter().all(|step| has_leaf_denial(step.kernel()));
    let can_go_without = obeys && thp_mode() != ThpMode::Always;
    leaf_use_here(Deed::Start { can_go_without })
}

impl<'h> PrepareStep<'h> {
    /// Whether nothing is done with the file.
    fn is_left(&self) -> bool {
        matches!(self.action, PrepareAction::Leave { .. })
    }

    /// The same step, or none where its text must stay as it is.
    pub fn under(self, leaves: LeafUse) -> PrepareStep<'h> {
        match leaves {
            LeafUse::AsItIs if !self.is_left() => self.left(LeaveReason::HarmfulLeaves),
            LeafUse::AsItIs | LeafUse::Leaves | LeafUse::Tables => self,
        }
    }

    /// Whether it is left because leaves do harm on this machine.
    pub fn is_left_by_harm(&self) -> bool {
        let why = LeaveReason::HarmfulLeaves;
        self.action == PrepareAction::Leave { why }
    }
}

/// Brings this process, and the command that it becomes, into the state in which its text is mapped so.
pub fn enter_leaf_use(leaves: LeafUse) -> Result<(), Error> {
    match leaves {
        LeafUse::Leaves | LeafUse::AsItIs => Ok(()),
        LeafUse::Tables => deny_huge_mappings().map_err(Error::NoTables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is tried in a child, because nobody can take it back.
    #[test]
    fn a_child_gets_no_huge_mappings() {
        let denied = hugetext_host::in_child(|| {
            enter_leaf_use(LeafUse::Tables).map_err(|error| error.to_string())?;
            hugetext_host::is_thp_disabled(hugetext_host::Pid::own())
                .map_err(|error| error.to_string())
        });
        assert_eq!(denied.unwrap(), Ok(true));
        assert!(!hugetext_host::is_thp_disabled(hugetext_host::Pid::own()).unwrap());
    }
}
