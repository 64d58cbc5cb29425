//! What a kernel can do for program text, decided from [`RULES`] alone.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filesystem::Filesystem;
use crate::geometry::{Leaf, LeafKind};
use crate::kernel::{Kernel, Version};
use crate::reach::Cause;
use crate::rules::RULES;

/// An ability of a kernel that concerns program text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The ELF loader places a PIE by its largest p_align.
    PieAlignment,
    /// The ELF loader places a static PIE by its largest p_align.
    StaticPieAlignment,
    /// mmap of a file makes address and offset congruent modulo the PMD size.
    MmapAlignment,
    /// The page cache of this filesystem holds folios of PMD order.
    LargeFolios,
    /// A fault in a mapping with MADV_HUGEPAGE reads a PMD-order folio.
    HugeReadahead,
    /// MADV_COLLAPSE makes PMD leaves of mapped file text.
    Collapse,
    /// mprotect() handles the PTEs of a large folio in one batch.
    MprotectBatching,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 7] = [
        Topic::PieAlignment,
        Topic::StaticPieAlignment,
        Topic::MmapAlignment,
        Topic::LargeFolios,
        Topic::HugeReadahead,
        Topic::Collapse,
        Topic::MprotectBatching,
    ];
}

/// What must be true of a kernel, apart from its version, for a rule to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Regular files that nobody has open for writing may be collapsed on every filesystem.
    ReadOnlyThp,
    /// Huge pages of tmpfs are not forced off.
    HugeShmem,
}

/// Where a kernel says whether a [`Condition`] is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The option was set to `y` when the kernel was built.
    Config(&'static str),
    /// The chosen word of a file in sysfs is not `off`. The words stand in one line, and the chosen
    /// one in brackets.
    Tunable {
        /// The file.
        path: &'static str,
        /// The word that breaks the condition.
        off: &'static str,
    },
}

impl Condition {
    /// Every condition.
    pub const ALL: [Condition; 2] = [Condition::ReadOnlyThp, Condition::HugeShmem];

    /// Where a kernel says whether it is met.
    pub const fn setting(self) -> Setting {
        match self {
            Condition::ReadOnlyThp => Setting::Config("CONFIG_READ_ONLY_THP_FOR_FS"),
            Condition::HugeShmem => Setting::Tunable {
                path: "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                off: "deny",
            },
        }
    }

    /// Whether the answer for a kernel of this version depends on it.
    pub fn matters(self, version: Version) -> bool {
        let mut rules = RULES.iter();
        rules.any(|rule| rule.condition == Some(self) && rule.covers(version))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting() {
            Setting::Config(option) => f.write_str(option),
            Setting::Tunable { path, off } => write!(f, "{path} is not '{off}'"),
        }
    }
}

/// A set of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conditions(u8);

impl Conditions {
    /// What a kernel meets if nobody changed a setting: tunables, and no optional configuration.
    pub fn usual() -> Conditions {
        let tunable =
            |condition: &Condition| matches!(condition.setting(), Setting::Tunable { .. });
        Condition::ALL.into_iter().filter(tunable).collect()
    }

    /// Whether `condition` is in the set.
    pub const fn contains(self, condition: Condition) -> bool {
        self.0 & (1 << condition as u8) != 0
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<T: IntoIterator<Item = Condition>>(conditions: T) -> Conditions {
        let bits = conditions.into_iter().map(|condition| 1 << condition as u8);
        Conditions(bits.fold(0, |set, bit| set | bit))
    }
}

/// The kernels that have an ability on a filesystem. Several rules may concern the same ability; one
/// that holds is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The ability.
    pub topic: Topic,
    /// The filesystem it concerns; `None` for all.
    pub filesystem: Option<Filesystem>,
    /// The first version it holds in.
    pub since: Version,
    /// The first version that it no longer holds in; `None` if it holds to this day.
    pub until: Option<Version>,
    /// What else must be true of the kernel.
    pub condition: Option<Condition>,
    /// The ability that the kernel must also have on the filesystem.
    pub requires: Option<Topic>,
    /// The largest leaf it holds for.
    pub largest: Leaf,
    /// The place in the kernel source.
    pub source: &'static str,
}

impl Rule {
    /// Whether the rule concerns an ability on a filesystem, for a leaf.
    pub fn concerns(&self, topic: Topic, filesystem: Filesystem, leaf: Leaf) -> bool {
        self.topic == topic
            && self.filesystem.is_none_or(|named| named == filesystem)
            && leaf <= self.largest
    }

    /// Whether it is about kernels of this version.
    fn covers(&self, version: Version) -> bool {
        self.since <= version && self.until.is_none_or(|until| version < until)
    }
}

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
#[path = "rule_tests.rs"]
mod tests;
