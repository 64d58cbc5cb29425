//! What the rules ask of a kernel, apart from its version.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
