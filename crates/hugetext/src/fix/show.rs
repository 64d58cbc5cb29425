//! Formats a fix as text.

use std::fmt::Write;

use hugetext_elf::{Plan, Warning};
use hugetext_engine::FixNote;
use hugetext_leaf::verdict::{LeafUse, LeavesDoHarm};

use crate::documents::fix::{FixOutcome, FixReport, WrittenReport};
use crate::meaning::{self, FixedFile, Meaning, of_this_host};
use crate::path::shown;
use crate::table::{bytes, count, fewer_by_readahead, percent};

/// The change that was or would be made, and what it means.
pub(super) fn text(report: &FixReport) -> String {
    format!("{}\n{}", change(report).trim_end(), meaning_of(report))
}

fn meaning_of(report: &FixReport) -> Meaning {
    let (what, after) = match (&report.outcome, &report.written) {
        (FixOutcome::Refused(_), _) => (FixedFile::Refused, 0),
        (FixOutcome::Plan { reached_after, .. }, Some(_)) => (FixedFile::Written, *reached_after),
        (
            FixOutcome::Plan {
                reached_after,
                done_already,
                ..
            },
            None,
        ) => {
            let what = if *done_already {
                FixedFile::Done
            } else {
                FixedFile::Planned
            };
            (what, *reached_after)
        }
    };
    let path = report
        .written
        .as_ref()
        .map_or(&report.path, |new| &new.output);
    meaning::fixed(path, what, report.text, after, of_this_host())
}

fn change(report: &FixReport) -> String {
    let path = shown(&report.path);
    let (plan, after, done_already, cold, readahead) = match &report.outcome {
        FixOutcome::Refused(reason) => return format!("{path}: refused: {reason}"),
        FixOutcome::Plan {
            plan,
            reached_after,
            done_already,
            cold_start,
            long_readahead,
        } => (
            plan,
            *reached_after,
            *done_already,
            cold_start,
            *long_readahead,
        ),
    };
    let mut text = String::new();
    let mut line = |content: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{content}");
    };
    let size = bytes(report.text);
    let before = percent(report.reached_before, report.text);
    let after = percent(after, report.text);
    let (strategy, leaf) = (plan.strategy, plan.leaf);
    if done_already {
        line(format_args!(
            "{path}: already laid out for {leaf} leaves, which reach {after} of {size} of text"
        ));
    } else {
        line(format_args!(
            "{path}: {strategy}; {leaf} leaves reach {before} of {size} of text before, {after} after"
        ));
        line(format_args!("  costs {}", cost(plan)));
    }
    if cold.huge > 0 {
        line(format_args!("  warms itself: {cold} with glibc.elf.thp"));
        if let Some(readahead) = readahead {
            line(format_args!("    {}", fewer_by_readahead(readahead)));
        }
    }
    for lost in lost_to_tools(plan) {
        line(format_args!("  {lost}"));
    }
    for warning in &plan.warnings {
        line(format_args!("  {}", warning_text(*warning)));
    }
    for note in &report.notes {
        line(format_args!("  {note}"));
    }
    match &report.written {
        Some(new) => text.push_str(&written(new)),
        None if done_already => {}
        None => text.push_str(&layout(plan)),
    }
    text
}

/// What tools and programs lose by the cut of text.
fn lost_to_tools(plan: &Plan) -> &'static [&'static str] {
    if plan.repeats_text() {
        &[
            "a second PT_LOAD repeats the windows of its text; GNU strip and objcopy make it ineffective",
            "gVisor, and Linux 4.17 to 5.3, do not start programs with such PT_LOADs",
        ]
    } else if plan.sections_cut.is_empty() {
        &[]
    } else {
        &[
            "its text becomes two segments and two sections; programs that look for their own text find the first",
            "in the second, gdb, objdump and addr2line find exported functions only by .symtab, and Valgrind no lines",
        ]
    }
}

/// The new file.
fn written(new: &WrittenReport) -> String {
    let verified = &new.verified;
    let found = match (verified.permissions.is_empty(), verified.added.is_empty()) {
        (true, true) => "the same program",
        (false, _) => "the same program, except for the added execution rights",
        (true, false) => "the same program, with zeros at addresses that were free",
    };
    let mut text = format!("  verified: {found}\n  written to {}\n", shown(&new.output));
    if let Some(cache) = &new.cache {
        let (huge, windows) = (cache.huge, count(cache.windows, "window"));
        let without = match cache.leaves {
            LeafUse::Leaves => String::new(),
            _ => format!(", in folios that no leaf maps, because {LeavesDoHarm}"),
        };
        let _ = writeln!(text, "  page cache: {huge} of {windows} huge{without}");
    }
    text
}

/// What the user should know, by the options of this command.
pub(super) fn note(note: &FixNote) -> String {
    match note {
        FixNote::OtherLinks(links) => format!(
            "the old content stays under {}",
            count(*links, "other hard link")
        ),
        FixNote::PrivilegesLeftOut => {
            "the copy goes without its set-id bits or capabilities; --privileged keeps them"
                .to_owned()
        }
        FixNote::ImpossibleGeometry(geometry) => {
            format!("laid out for {geometry}, but no kernel that runs it has this geometry")
        }
        FixNote::OldTraces { kept: true } => {
            "profiles and core dumps from before need the backup: lab/results/fix.md has the commands"
                .to_owned()
        }
        FixNote::OldTraces { kept: false } => {
            "profiles and core dumps from before lose their names; --backup keeps the old file for them"
                .to_owned()
        }
        FixNote::Obstacle(cause) => cause.to_string(),
        FixNote::Vouched(voucher) => format!("the file {voucher}"),
    }
}

/// The new PT_LOADs, for a dry run.
fn layout(plan: &Plan) -> String {
    let mut text = String::from("  nothing written; the PT_LOADs would be\n");
    for segment in &plan.segments {
        let (perms, vaddr, offset) = (segment.perms, segment.vaddr, segment.offset);
        let (filesz, align) = (segment.filesz, segment.align);
        let _ = writeln!(
            text,
            "    {perms} {vaddr:#x} offset {offset:#x} size {filesz:#x} align {align:#x}"
        );
    }
    text
}

fn cost(plan: &Plan) -> String {
    let cost = &plan.cost;
    let mut parts = Vec::new();
    if cost.apparent > 0 {
        let (holes, disk) = (bytes(cost.apparent), bytes(cost.disk));
        parts.push(format!(
            "{holes} of holes in the file and at most {disk} of disk"
        ));
    }
    if cost.memory > 0 {
        parts.push(format!("at most {} of zeros in memory", bytes(cost.memory)));
    }
    if cost.aslr_bits > 0 {
        parts.push(format!("{} of ASLR", count(cost.aslr_bits, "bit")));
    }
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(", ")
    }
}

fn warning_text(warning: Warning) -> String {
    match warning {
        Warning::BecomesExecutable { addresses } => format!(
            "{} of read-only data at {:#x} become executable",
            bytes(addresses.len()),
            addresses.start
        ),
        Warning::ProgramHeadersMove => {
            "its program headers move; kernels before 5.18 pass it a wrong address for them (AT_PHDR)"
                .to_owned()
        }
        Warning::DataJoined { addresses } => format!(
            "the PT_LOADs of data at {:#x} become one, and the header of the other gives its place to the cut PT_LOAD",
            addresses.start
        ),
        Warning::LeftOut { p_type: PT_PHDR } => {
            "PT_PHDR gives its place to the cut PT_LOAD; loaders place this file without it"
                .to_owned()
        }
        Warning::LeftOut { .. } => {
            "the PT_NOTE that PT_GNU_PROPERTY repeats gives its place to the cut PT_LOAD".to_owned()
        }
    }
}

/// PT_PHDR (gABI, program header).
const PT_PHDR: u32 = 6;
