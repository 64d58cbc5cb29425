//! Whether the text of a command is to be mapped by leaves on this machine.

use hugetext_host::{ThpMode, deny_huge_mappings, thp_mode};
use hugetext_leaf::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decide::{LeaveReason, PrepareAction};
use super::step::PrepareStep;
use crate::error::Error;
use crate::machine::MachineVerdict;

/// How text in huge folios is mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeafUse {
    /// By leaves.
    #[default]
    Leaves,
    /// By tables of pages, because programs of many system calls lose by leaves here. The folios give a start most of its
    /// gain (docs/host.md). The command gets no huge pages for anonymous memory either.
    Tables,
    /// The text is left as it is: leaves do harm here, and without huge pages anonymous memory would lose what the
    /// setting of this machine gives to every program.
    AsItIs,
}

/// Decides for a machine: what was found out about leaves, and the setting for anonymous memory.
pub fn decide_leaf_use(verdict: Verdict, anonymous: ThpMode) -> LeafUse {
    match (verdict, anonymous) {
        (Verdict::WorthIt | Verdict::StartsOnly | Verdict::CannotTell, _) => LeafUse::Leaves,
        (Verdict::Harmful, ThpMode::Always) => LeafUse::AsItIs,
        (Verdict::Harmful, _) => LeafUse::Tables,
    }
}

impl LeafUse {
    /// For the files of these steps on this machine. If nothing is done with any, no trial is made.
    pub fn here(steps: &[PrepareStep<'_>]) -> LeafUse {
        let acts = |step: &PrepareStep<'_>| !matches!(step.action, PrepareAction::Leave { .. });
        if !steps.iter().any(acts) {
            return LeafUse::Leaves;
        }
        let found = MachineVerdict::once().map(|found| found.judgement.verdict);
        decide_leaf_use(found.unwrap_or(Verdict::CannotTell), thp_mode())
    }

    /// The steps that it permits.
    pub fn permitted<'h>(self, steps: Vec<PrepareStep<'h>>) -> Vec<PrepareStep<'h>> {
        let leave = |step: PrepareStep<'h>| match step.action {
            PrepareAction::Leave { .. } => step,
            _ => step.left(LeaveReason::HarmfulLeaves),
        };
        match self {
            LeafUse::Leaves | LeafUse::Tables => steps,
            LeafUse::AsItIs => steps.into_iter().map(leave).collect(),
        }
    }

    /// Brings this process, and the command that it becomes, into that state.
    pub fn enter(self) -> Result<(), Error> {
        match self {
            LeafUse::Leaves | LeafUse::AsItIs => Ok(()),
            LeafUse::Tables => deny_huge_mappings().map_err(Error::NoTables),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_denied_only_where_they_do_harm_and_nothing_else_is_lost() {
        for mode in [
            ThpMode::Always,
            ThpMode::Madvise,
            ThpMode::Never,
            ThpMode::Unavailable,
        ] {
            for verdict in [Verdict::WorthIt, Verdict::StartsOnly, Verdict::CannotTell] {
                assert_eq!(decide_leaf_use(verdict, mode), LeafUse::Leaves);
            }
            let expected = match mode {
                ThpMode::Always => LeafUse::AsItIs,
                _ => LeafUse::Tables,
            };
            assert_eq!(decide_leaf_use(Verdict::Harmful, mode), expected);
        }
    }

    /// It is tried in a child, because nobody can take it back.
    #[test]
    fn a_child_gets_no_huge_mappings() {
        let denied = hugetext_host::in_child(|| {
            LeafUse::Tables.enter().map_err(|error| error.to_string())?;
            hugetext_host::is_thp_disabled(hugetext_host::Pid::own())
                .map_err(|error| error.to_string())
        });
        assert_eq!(denied.unwrap(), Ok(true));
        assert!(!hugetext_host::is_thp_disabled(hugetext_host::Pid::own()).unwrap());
    }
}
