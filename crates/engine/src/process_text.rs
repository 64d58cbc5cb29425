//! The text that a running process maps, and the part of it that leaves can map.

use std::fs::File;

use hugetext_host::{Pid, TextMapping, folio_bytes, is_thp_disabled, present_bytes, text_mappings};
use hugetext_leaf::{Bias, Cause, Leaf, Segment, Span, reach};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;

/// One mapping of text, and the part of it that leaves can map.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProcessText {
    /// The mapping.
    #[serde(flatten)]
    pub mapping: TextMapping,
    /// Bytes of it in windows.
    pub reached: u64,
    /// Why leaves cannot map the rest of it, or do not map all of its windows.
    pub causes: Vec<Cause>,
    /// Its windows; empty if no leaf can map any part of it.
    #[serde(skip)]
    pub windows: Span,
}

/// The text that a process maps from files, one mapping after the other.
pub fn process_texts(pid: Pid, page: Leaf, leaf: Leaf) -> Result<Vec<ProcessText>, Error> {
    let failed = Error::process(pid);
    let thp_disabled = is_thp_disabled(pid).map_err(&failed)?;
    Ok(text_mappings(pid)
        .map_err(failed)?
        .into_iter()
        .filter(|mapping| mapping.path.is_some())
        .map(|mapping| process_text(pid, mapping, page, leaf, thp_disabled))
        .collect())
}

fn process_text(
    pid: Pid,
    mapping: TextMapping,
    page: Leaf,
    leaf: Leaf,
    thp_disabled: bool,
) -> ProcessText {
    let (windows, mut causes) = reach_of(&mapping, page, leaf);
    let reached = windows.len();
    if mapping.pmd_mapped < reached {
        causes.extend(thp_disabled.then_some(Cause::ThpDisabled));
        causes.extend(why_small(pid, windows, leaf, mapping.pmd_mapped));
    }
    ProcessText {
        mapping,
        reached,
        causes,
        windows,
    }
}

/// Why PMD leaves map only `huge` bytes of these windows. Text that was never touched is in no leaf
/// either, and has no cause.
fn why_small(pid: Pid, windows: Span, leaf: Leaf, huge: u64) -> Vec<Cause> {
    let Ok(pagemap) = File::open(format!("/proc/{pid}/pagemap")) else {
        return Vec::new();
    };
    let present = present_bytes(&pagemap, windows).unwrap_or(0);
    // Only root may see which folios lie behind small pages.
    let in_huge = folio_bytes(&pagemap, windows, Some(leaf), None).map_or(huge, |by| by.pmd);
    let small = (present > in_huge).then_some(Cause::SmallFolios);
    let split = (in_huge > huge).then_some(Cause::SmallPages);
    small.into_iter().chain(split).collect()
}

/// The windows of a mapping, and the causes that keep the rest of it out. A promoted copy is a
/// mapping like any other, and so is the part of the file that remains next to it.
fn reach_of(mapping: &TextMapping, page: Leaf, leaf: Leaf) -> (Span, Vec<Cause>) {
    let (start, len) = (mapping.addresses.start, mapping.addresses.len());
    let none = (Span::new(start, start), Vec::new());
    let segment = Segment::new(start, mapping.offset, len, len, 0, mapping.perms);
    let Ok(segment) = segment else { return none };
    let reach = reach(&[segment], page, leaf, Bias::ZERO);
    let text = reach.segments.into_iter().next();
    text.map_or(none, |text| (text.windows, text.causes))
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Perms;

    use super::*;

    #[test]
    fn a_mapping_reaches_no_further_than_its_own_windows() {
        const M: u64 = 1 << 20;
        let windows = |start: u64, end: u64, offset| {
            let mapping = TextMapping {
                addresses: Span::new(start, end),
                offset,
                perms: Perms {
                    read: true,
                    write: false,
                    exec: true,
                },
                path: None,
                file: None,
                deleted: false,
                rss: end - start,
                pss: 0,
                anonymous: 0,
                pmd_mapped: 0,
            };
            reach_of(&mapping, Leaf::K4, Leaf::M2)
        };
        // The mappings after a promotion of 26 MiB: the file before the copy, the copy, and the
        // rest.
        let (none, causes) = windows(0xb72000, 0xc00000, 0x772000);
        assert_eq!((none.len(), causes), (0, vec![Cause::Small]));
        let (copy, causes) = windows(0xc00000, 0xc00000 + 26 * M, 0);
        assert_eq!((copy.len(), causes), (26 * M, Vec::new()));
        let tail = 0xc00000 + 26 * M;
        assert!(windows(tail, tail + 2 * M, tail - 0x1000).0.is_empty());
    }
}
