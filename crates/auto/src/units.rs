//! By which leaves the processes of each unit map their text.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use hugetext_host::{
    GroupOwners, ListBudget, Paging, Pid, TextMapping, folio_bytes, group_of_process, pids,
    text_mappings_within,
};
use hugetext_leaf::Leaf;
use hugetext_metrics::{MOST_UNITS, UnitText, bounded, unit_of_cgroup};

use crate::processor::own_time;

/// The most processes that are looked at.
const MOST: usize = 65_536;
/// Looking may take this share of one processor.
const SHARE: f64 = 0.001;
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(30);
/// The longest.
const LONGEST: Duration = Duration::from_secs(900);

/// The text of all units, and how long to wait for the next look, so that looking costs a thousandth of a
/// processor.
#[derive(Debug)]
pub(crate) struct Looked {
    /// By unit and leaf.
    pub text: Vec<UnitText>,
    /// The time until the next look.
    pub pause: Duration,
}

/// Reads the mappings of all processes that this one may read. It takes about a millisecond for each.
pub(crate) fn look() -> Looked {
    let before = own_time();
    let (paging, owners) = (Paging::this(), GroupOwners::this());
    let mut text: BTreeMap<(String, Leaf), u64> = BTreeMap::new();
    let mut budget = ListBudget::new(ListBudget::SMAPS);
    for pid in pids().unwrap_or_default().into_iter().take(MOST) {
        // It has ended, it is a thread of the kernel or another user's, its mappings are locked or very many.
        let Ok(mappings) = text_mappings_within(pid, &mut budget) else {
            continue;
        };
        let group = group_of_process(pid);
        let unit = unit_of_cgroup(owners.of_root(group.as_deref().unwrap_or("/")));
        for (leaf, bytes) in by_leaf(pid, &mappings, &paging) {
            let sum = text.entry((unit.clone(), leaf)).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    let taken = own_time().saturating_sub(before);
    Looked {
        text: bounded(text, MOST_UNITS),
        pause: taken.div_f64(SHARE).clamp(SHORTEST, LONGEST),
    }
}

/// Text of a process in memory, by the leaves that map it. Blocks of contpte are told from base pages only
/// with CAP_SYS_ADMIN, and count as base pages without it.
fn by_leaf(pid: Pid, mappings: &[TextMapping], paging: &Paging) -> Vec<(Leaf, u64)> {
    let sum = |bytes: fn(&TextMapping) -> u64| mappings.iter().map(bytes).sum::<u64>();
    let (rss, huge) = (sum(|text| text.rss), sum(|text| text.pmd_mapped));
    let contpte = paging.geometry.and_then(|geometry| geometry.contpte);
    let blocks = contpte.and_then(|leaf| Some((leaf, blocks(pid, mappings, paging)?)));
    let mut found = Vec::new();
    let mut rest = rss.saturating_sub(huge);
    if let Some((leaf, bytes)) = blocks {
        let bytes = bytes.min(rest);
        rest = rest.saturating_sub(bytes);
        found.push((leaf, bytes));
    }
    found.push((paging.page, rest));
    found.extend(paging.pmd.map(|leaf| (leaf, huge)));
    found
}

/// Bytes in blocks of contpte. Folios of PMD order that no PMD leaf maps are mapped by such blocks.
fn blocks(pid: Pid, mappings: &[TextMapping], paging: &Paging) -> Option<u64> {
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let contpte = paging.geometry.and_then(|geometry| geometry.contpte);
    let mut bytes = 0u64;
    for text in mappings {
        let folios = folio_bytes(&pagemap, text.addresses, paging.pmd, contpte).ok()?;
        let large = folios.pmd.saturating_sub(text.pmd_mapped);
        bytes = bytes.saturating_add(folios.contpte).saturating_add(large);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_maps_text_in_some_unit() {
        let looked = look();
        let bytes: u64 = looked.text.iter().map(|text| text.bytes).sum();
        assert!(bytes > 100_000, "{looked:?}");
        assert!(looked.pause >= SHORTEST && looked.pause <= LONGEST);
    }
}
