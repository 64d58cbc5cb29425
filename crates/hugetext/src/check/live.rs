//! `hugetext check --pid`: the same questions, asked of the mappings of a running process.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

use hugetext_elf::Image;
use hugetext_host::{Machine, TextMapping, is_thp_disabled, text_mappings};
use hugetext_leaf::{Bias, Cause, Leaf, Span, TextReach, reach};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{bytes, percent};

/// What a check of processes found.
#[derive(Debug, Serialize)]
struct Report {
    processes: Vec<Process>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: i32,
    leaf: Leaf,
    /// Bytes of text mapped from ELF files.
    text: u64,
    /// Of these, in windows: what leaves could map where the text lies now.
    reached: u64,
    /// Of these, mapped by PMD leaves.
    actual: u64,
    mappings: Vec<LiveText>,
}

/// One mapping of text, joined with the segment it shows.
#[derive(Debug, Serialize)]
pub(crate) struct LiveText {
    #[serde(flatten)]
    pub(crate) mapping: TextMapping,
    /// Bytes of it in windows.
    pub(crate) reached: u64,
    pub(crate) causes: Vec<Cause>,
}

impl LiveText {
    /// Its windows; empty if no leaf can map any of it.
    pub(crate) fn windows(&self, leaf: Leaf) -> Span {
        let Span { start, end } = self.mapping.addresses;
        match self.reached {
            0 => Span::new(start, start),
            _ => Span::new(leaf.align_up(start), leaf.align_down(end)),
        }
    }
}

/// Checks running processes; those that cannot be looked at are errors, the others still done.
pub(super) fn run(pids: &[i32], require: Option<u8>, output: &Output) -> Result<Verdict, Failure> {
    let machine = Machine::this();
    let leaf = machine.pmd.ok_or_else(|| {
        Failure::new(
            &machine.release,
            "this kernel has no transparent huge pages",
        )
    })?;
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

/// The text a process maps from files, mapping by mapping.
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
    let found = segment_reach(pid, &mapping, page, leaf);
    let (reached, mut causes) =
        found.map_or((0, Vec::new()), |reach| (reach.reached, reach.causes));
    if mapping.pmd_mapped < reached {
        // What was never touched is in no leaf either; it is told by the resident size.
        causes.extend(thp_disabled.then_some(Cause::ThpDisabled));
        causes.extend((mapping.rss > mapping.pmd_mapped).then_some(Cause::SmallFolios));
    }
    LiveText {
        mapping,
        reached,
        causes,
    }
}

/// The reach of the segment that a mapping shows, at the load bias it really has.
fn segment_reach(pid: i32, mapping: &TextMapping, page: Leaf, leaf: Leaf) -> Option<TextReach> {
    let span = mapping.addresses;
    // The link opens the mapped inode itself, whatever has its path by now; it needs privileges.
    let link = PathBuf::from(format!(
        "/proc/{pid}/map_files/{:x}-{:x}",
        span.start, span.end
    ));
    let by_path = || {
        let path = mapping.path.as_ref().filter(|_| !mapping.deleted)?;
        File::open(format!("/proc/{pid}/root{}", path.display())).ok()
    };
    let file = File::open(link).ok().or_else(by_path)?;
    let image = Image::read(&file).ok()?;
    let segment = image.segments.iter().position(|segment| {
        segment.is_text() && page.align_down(segment.offset) == mapping.offset
    })?;
    let start = page.align_down(image.segments.get(segment)?.vaddr);
    let align = Bias::ZERO.align;
    let bias = Bias {
        align,
        residue: align.offset_in(span.start.wrapping_sub(start)),
    };
    reach(&image.segments, page, leaf, bias)
        .segments
        .into_iter()
        .find(|text| text.segment == segment)
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
            let path = live.mapping.path.as_deref().unwrap_or(Path::new("?"));
            let _ = write!(
                text,
                "  {:#x} {}: {} in reach, {} huge  {}",
                live.mapping.addresses.start,
                bytes(live.mapping.addresses.len()),
                bytes(live.reached),
                bytes(live.mapping.pmd_mapped),
                path.display(),
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
