//! The state of an autopilot as plain numbers, with as few series as a database of metrics can keep.

use std::collections::BTreeMap;

use hugetext_host::container_id;
use hugetext_leaf::Leaf;

/// The most units that have series of their own. The text of all others is in one series, `other`.
pub const MOST_UNITS: usize = 64;
/// The name of the unit that stands for all others.
pub(crate) const OTHERS: &str = "other";

/// The autopilot at one moment. All strings but the names of units come from the program itself, so that
/// nobody outside can add series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The version of the program.
    pub version: &'static str,
    /// What huge text gives on this machine: worth-it, starts-only, harmful, cannot-tell or unknown.
    pub verdict: &'static str,
    /// Whether it acts; otherwise it only observes.
    pub acts: bool,
    /// Bytes that the administrator allows to hold.
    pub budget: u64,
    /// Bytes that may be held now.
    pub allowed: u64,
    /// Bytes held.
    pub held: u64,
    /// Bytes of these that the administrator's lists name.
    pub listed: u64,
    /// Bytes of text that huge leaves can map, of all known files.
    pub reachable: u64,
    /// Seconds that what is held is expected to save over the next half-life.
    pub expected_saving: f64,
    /// Known files by what is done about them.
    pub files: Vec<FilesIn>,
    /// Text that processes map, by unit and leaf.
    pub text: Vec<UnitText>,
    /// Starts of programs and mappings of libraries that were seen.
    pub starts: u64,
    /// How often something was decided.
    pub decisions: BTreeMap<Decision, u64>,
    /// Bytes given back because memory was short.
    pub given_back: GivenBack,
    /// How often memory was short, by who was short of it.
    pub stalls: Vec<(&'static str, u64)>,
    /// What went wrong, by what it was.
    pub errors: Vec<(&'static str, u64)>,
    /// The daemon's own processor time in seconds.
    pub own_seconds: f64,
    /// The daemon's own anonymous memory in bytes.
    pub own_bytes: u64,
}

/// How many files are in one state for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesIn {
    /// held, would_hold, waiting or refused.
    pub state: &'static str,
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub files: u64,
}

/// A decision, and why it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// hold or release.
    pub decision: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Numbers by who was short of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// Some tasks of the machine waited.
    pub some: u64,
    /// All tasks of the machine waited.
    pub full: u64,
    /// A control group was at its limit.
    pub cgroup: u64,
}

/// Text that the processes of one unit map by leaves of one size. A page that several processes map counts
/// once for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitText {
    /// The unit or container.
    pub unit: String,
    /// The leaf.
    pub leaf: Leaf,
    /// Bytes.
    pub bytes: u64,
}

/// The units with most text, at most `most`; the text of all others is that of the unit `other`.
pub fn bounded(text: BTreeMap<(String, Leaf), u64>, most: usize) -> Vec<UnitText> {
    let mut by_unit: BTreeMap<&str, u64> = BTreeMap::new();
    for ((unit, _), bytes) in &text {
        let sum = by_unit.entry(unit).or_default();
        *sum = sum.saturating_add(*bytes);
    }
    let mut largest: Vec<(&str, u64)> = by_unit.into_iter().collect();
    largest.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let own: std::collections::BTreeSet<String> = largest
        .iter()
        .take(most)
        .map(|(unit, _)| (*unit).to_owned())
        .collect();
    let mut bounded: BTreeMap<(String, Leaf), u64> = BTreeMap::new();
    for ((unit, leaf), bytes) in text {
        let unit = if own.contains(&unit) {
            unit
        } else {
            OTHERS.to_owned()
        };
        let sum = bounded.entry((unit, leaf)).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let series = bounded.into_iter();
    series
        .map(|((unit, leaf), bytes)| UnitText { unit, leaf, bytes })
        .collect()
}

/// The unit of systemd or the container that a control group belongs to, by its path below the root of
/// control groups. A container is named by the first 12 digits of its id, as container tools print them.
///
/// Names of scopes of sessions and of instances hold numbers that never come again; such scopes and
/// everything in a user's slice, containers too, count as that slice: users choose the names there.
pub fn unit_of_cgroup(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.first() == Some(&"user.slice") {
        return parts.get(1).unwrap_or(&"user.slice").to_string();
    }
    if let Some(id) = parts.iter().rev().find_map(|part| container_id(part)) {
        return format!("container-{}", id.get(..12).unwrap_or(id));
    }
    let service = parts.iter().rev().find(|part| part.ends_with(".service"));
    let last = service.or_else(|| parts.iter().rev().find(|part| part.ends_with(".slice")));
    match (last, parts.first()) {
        (Some(unit), _) => (*unit).to_owned(),
        (None, Some(first)) => (*first).to_owned(),
        (None, None) => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_those_that_administrators_name() {
        let id = "0123456789abcdef".repeat(4);
        for (path, unit) in [
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/nginx.service/worker", "nginx.service"),
            (
                "/user.slice/user-1000.slice/session-7.scope",
                "user-1000.slice",
            ),
            (
                &format!("/user.slice/user-1000.slice/user@1000.service/docker-{id}"),
                "user-1000.slice",
            ),
            ("/", "/"),
            ("/init.scope", "init.scope"),
            ("/system.slice", "system.slice"),
            (
                &format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
                "container-0123456789ab",
            ),
            (&format!("/docker/{id}"), "container-0123456789ab"),
            (
                &format!("/system.slice/docker-{id}.scope/init"),
                "container-0123456789ab",
            ),
        ] {
            assert_eq!(unit_of_cgroup(path), unit, "{path}");
        }
    }

    fn leaf() -> impl Strategy<Value = Leaf> {
        prop::sample::select(vec![Leaf::K4, Leaf::K64, Leaf::M2])
    }

    proptest! {
        #[test]
        fn however_many_units_there_are_series_are_few_and_no_byte_is_lost(
            units in prop::collection::btree_map(("[a-z]{1,3}", leaf()), 0u64..1 << 40, 0..300),
            most in 0usize..20,
        ) {
            let all: u64 = units.values().sum();
            let series = bounded(units, most);
            prop_assert!(series.len() <= (most + 1) * 3);
            prop_assert_eq!(series.iter().map(|text| text.bytes).sum::<u64>(), all);
        }
    }
}
