//! `hugetext check --pid`: assesses the mappings of a running process.

use std::fmt::Write;
use std::fs::File;

use hugetext_host::{
    Machine, TextMapping, folio_bytes, is_thp_disabled, present_bytes, text_mappings,
};
use hugetext_leaf::{Bias, Cause, Leaf, Segment, Span, reach};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::stat::file_of;
use crate::table::{bytes, percent};

/// The result of a check of processes.
#[derive(Debug, Serialize)]
struct Report {
    processes: Vec<Process>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: i32,
    leaf: Leaf,
    /// Bytes of text mapped from files.
    text: u64,
    /// The part of it in windows: the text that leaves could map at its present addresses.
    reached: u64,
    /// The part of it that PMD leaves map.
    actual: u64,
    mappings: Vec<LiveText>,
}

/// One mapping of text, and the part of it that leaves can map.
#[derive(Debug, Serialize)]
pub(crate) struct LiveText {
    #[serde(flatten)]
    pub(crate) mapping: TextMapping,
    /// Bytes of it in windows.
    pub(crate) reached: u64,
    pub(crate) causes: Vec<Cause>,
    /// Its windows; empty if no leaf can map any part of it.
    #[serde(skip)]
    pub(crate) windows: Span,
}

/// Checks running processes. A process that cannot be read is an error; the others are still
/// checked.
pub(super) fn run(pids: &[i32], require: Option<u8>, output: &Output) -> Result<Verdict, Failure> {
    let machine = Machine::this();
    let leaf = machine
        .pmd
        .ok_or_else(|| Failure::no_huge_pages(&machine.release))?;
    let mut verdict = Verdict::Done;
    let mut processes = Vec::new();
    for pid in pids {
        match process(*pid, machine.page, leaf) {
            Ok(process) => processes.push(process),
            Err(failure) => {
                output.error(&failure);
                verdict = Verdict::Failed;
            }
        }
    }
    let report = Report { processes };
    output.result("check", &report, show)?;
    let falls_short = |process: &Process| {
        require.is_some_and(|percent| process.actual * 100 < process.text * u64::from(percent))
    };
    let no = report.processes.iter().any(falls_short);
    Ok(verdict.and(if no { Verdict::No } else { Verdict::Done }))
}

/// The text that a process maps from files, one mapping after the other.
pub(crate) fn live_texts(pid: i32, page: Leaf, leaf: Leaf) -> Result<Vec<LiveText>, Failure> {
    let failed = |error| Failure::process(pid, &error);
    let thp_disabled = is_thp_disabled(pid).map_err(failed)?;
    Ok(text_mappings(pid)
        .map_err(failed)?
        .into_iter()
        .filter(|mapping| mapping.path.is_some())
        .map(|mapping| live_text(pid, mapping, page, leaf, thp_disabled))
        .collect())
}

fn process(pid: i32, page: Leaf, leaf: Leaf) -> Result<Process, Failure> {
    let mappings = live_texts(pid, page, leaf)?;
    let sum = |of: fn(&LiveText) -> u64| mappings.iter().map(of).sum();
    Ok(Process {
        pid,
        leaf,
        text: sum(|text| text.mapping.addresses.len()),
        reached: sum(|text| text.reached),
        actual: sum(|text| text.mapping.pmd_mapped),
        mappings,
    })
}

fn live_text(
    pid: i32,
    mapping: TextMapping,
    page: Leaf,
    leaf: Leaf,
    thp_disabled: bool,
) -> LiveText {
    let (windows, mut causes) = reach_of(&mapping, page, leaf);
    let reached = windows.len();
    if mapping.pmd_mapped < reached {
        causes.extend(thp_disabled.then_some(Cause::ThpDisabled));
        causes.extend(why_small(pid, windows, leaf, mapping.pmd_mapped));
    }
    LiveText {
        mapping,
        reached,
        causes,
        windows,
    }
}

/// Why PMD leaves map only `huge` bytes of these windows. Text that was never touched is in no leaf
/// either, and has no cause.
fn why_small(pid: i32, windows: Span, leaf: Leaf, huge: u64) -> Vec<Cause> {
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

fn show(report: &Report) -> String {
    let mut text = String::new();
    for process in &report.processes {
        let _ = writeln!(
            text,
            "process {}: {} of text mapped, {} in reach of {} leaves ({}), {} mapped by them ({})",
            process.pid,
            bytes(process.text),
            bytes(process.reached),
            process.leaf,
            percent(process.reached, process.text),
            bytes(process.actual),
            percent(process.actual, process.text),
        );
        for live in &process.mappings {
            let _ = write!(
                text,
                "  {:#x} {}: {} in reach, {} huge  {}",
                live.mapping.addresses.start,
                bytes(live.mapping.addresses.len()),
                bytes(live.reached),
                bytes(live.mapping.pmd_mapped),
                file_of(&live.mapping),
            );
            let causes: Vec<String> = live.causes.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "{}{}",
                if causes.is_empty() { "" } else { "\n      " },
                causes.join("; ")
            );
        }
    }
    text
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
                inode: (0, 0),
                deleted: false,
                rss: end - start,
                pss: 0,
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
