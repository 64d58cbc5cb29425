//! What a kernel can do for program text, decided from [`RULES`] alone.

use crate::cause::Cause;
use crate::condition::{Condition, Setting};
use crate::filesystem::Filesystem;
use crate::geometry::{Leaf, LeafKind};
use crate::kernel::{Kernel, Version};
use crate::rule::{Rule, Topic};
use crate::rules::RULES;

/// Whether a kernel can do something for text on a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// It can.
    Has,
    /// The filesystem below an overlay decides, and it cannot be seen: only a try can tell.
    Hidden,
    /// It cannot, for this reason.
    Lacks(Cause),
}

impl Ability {
    /// Why nobody may count on it; `None` if the kernel has it.
    pub fn doubt(self) -> Option<Cause> {
        let filesystem = Filesystem::Overlay;
        match self {
            Ability::Has => None,
            Ability::Hidden => Some(Cause::Filesystem { filesystem }),
            Ability::Lacks(cause) => Some(cause),
        }
    }

    /// Why a try is useless; `None` if the kernel has it, or may have it.
    pub fn refusal(self) -> Option<Cause> {
        match self {
            Ability::Has | Ability::Hidden => None,
            Ability::Lacks(cause) => Some(cause),
        }
    }

    /// The better of two: the one that is there, or that takes less to get there. A setting is
    /// changed in a moment, a kernel is upgraded now and then, a filesystem stays.
    fn or(self, other: Ability) -> Ability {
        let effort = |ability: &Ability| match ability {
            Ability::Has => (0, None),
            Ability::Hidden => (1, None),
            Ability::Lacks(Cause::Setting { .. }) => (2, None),
            Ability::Lacks(Cause::Kernel { needs }) => (3, Some(*needs)),
            Ability::Lacks(_) => (4, None),
        };
        std::cmp::min_by_key(self, other, effort)
    }
}

impl Condition {
    /// Whether the answer for a kernel of this version depends on it.
    pub fn matters(self, version: Version) -> bool {
        let mut rules = RULES.iter();
        rules.any(|rule| rule.condition == Some(self) && rule.covers(version))
    }
}

/// Whether `kernel` has the ability `topic` on `filesystem`, for `leaf`.
pub fn ability(topic: Topic, filesystem: Filesystem, kernel: Kernel, leaf: Leaf) -> Ability {
    ability_by(RULES, topic, filesystem, kernel, leaf)
}

/// As [`ability`], by other rules.
pub fn ability_by(
    rules: &[Rule],
    topic: Topic,
    filesystem: Filesystem,
    kernel: Kernel,
    leaf: Leaf,
) -> Ability {
    let none = match (topic, filesystem) {
        (Topic::LargeFolios, Filesystem::Overlay) => Ability::Hidden,
        _ => Ability::Lacks(Cause::Filesystem { filesystem }),
    };
    rules
        .iter()
        .filter(|rule| rule.concerns(topic, filesystem, leaf))
        .map(|rule| by_rule(rules, rule, filesystem, kernel, leaf))
        .fold(none, Ability::or)
}

/// The answer of one rule, which concerns the filesystem and the leaf.
fn by_rule(
    rules: &[Rule],
    rule: &Rule,
    filesystem: Filesystem,
    kernel: Kernel,
    leaf: Leaf,
) -> Ability {
    let never = Ability::Lacks(Cause::Filesystem { filesystem });
    if rule.until.is_some_and(|until| until <= kernel.version) {
        return never;
    }
    if let Some(condition) = rule.condition
        && !kernel.met.contains(condition)
    {
        return match condition.setting() {
            Setting::Tunable { .. } if rule.covers(kernel.version) => {
                Ability::Lacks(Cause::Setting { condition })
            }
            // No user can rebuild the kernel of a machine.
            _ => never,
        };
    }
    let too_old = (kernel.version < rule.since)
        .then_some(Ability::Lacks(Cause::Kernel { needs: rule.since }));
    // What the rule requires is asked of the first kernel that the rule covers.
    let version = kernel.version.max(rule.since);
    let required = rule.requires.map_or(Ability::Has, |topic| {
        ability_by(rules, topic, filesystem, Kernel { version, ..kernel }, leaf)
    });
    match required {
        Ability::Lacks(_) => required,
        Ability::Has | Ability::Hidden => too_old.unwrap_or(required),
    }
}

/// Whether MADV_COLLAPSE makes folios of a leaf's order from text of `filesystem`. Whoever collapses
/// asks this function.
pub fn collapse(filesystem: Filesystem, kernel: Kernel, leaf: Leaf) -> Ability {
    ability(Topic::Collapse, filesystem, kernel, leaf)
}

/// Whether a process with huge pages disabled (PR_SET_THP_DISABLE), or a mapping with MADV_NOHUGEPAGE, gets no leaf of a file
/// whose page cache is huge.
pub fn has_leaf_denial(kernel: Kernel) -> bool {
    let on_any = ability(Topic::LeafDenial, Filesystem::Ext4, kernel, Leaf::M2);
    on_any == Ability::Has
}

/// Whether the page cache of `filesystem` can hold folios of a leaf's order, by reading or by
/// MADV_COLLAPSE, which makes PMD leaves only.
pub fn large_folios(filesystem: Filesystem, kernel: Kernel, kind: LeafKind, leaf: Leaf) -> Ability {
    let read = ability(Topic::LargeFolios, filesystem, kernel, leaf);
    match kind {
        LeafKind::Pmd => read.or(collapse(filesystem, kernel, leaf)),
        LeafKind::Contpte => read,
    }
}

#[cfg(test)]
#[path = "ability_tests.rs"]
mod tests;
