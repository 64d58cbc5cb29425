//! Formats a check as text.

use std::cmp::Reverse;
use std::fmt::Write;

use hugetext_elf::Strategy;
use hugetext_engine::{AsFound, Assessment, SelfWarming, WindowCounts};
use hugetext_leaf::{Asker, Class, ObjectKind, Span, WindowOutcome, WindowRun};

use crate::documents::check::CheckReport;
use crate::meaning;
use crate::path::shown;
use crate::table::{bytes, count, fewer_by_readahead, figures, percent};

/// How many of the files with most to gain a summary names.
const WORST: usize = 15;

/// One file after the other, or the summary of a scan; with `verbose`, both.
pub(super) fn files(report: &CheckReport, scan: bool, verbose: bool) -> String {
    let mut text = String::new();
    if report.files.is_empty() && report.summary.errors > 0 {
        // The errors say all that is known.
        return text;
    }
    if !scan || verbose {
        for file in &report.files {
            text.push_str(&one(file, verbose));
            text.push('\n');
        }
    }
    let meaning = match report.files.as_slice() {
        [file] if !scan => meaning::check(file, report.text_elsewhere.as_ref()),
        files => {
            text.push_str(&summary(report));
            let sum = &report.summary;
            let gains = |file: &&Assessment| file.after_fix > file.reached;
            let worst = files.iter().filter(gains);
            let worst = worst.max_by_key(|file| file.after_fix - file.reached);
            let worst = worst.map(|file| file.path.as_path());
            meaning::many(sum.text, sum.reached, sum.after_fix, worst)
        }
    };
    let _ = write!(text, "{meaning}");
    text
}

fn one(file: &Assessment, verbose: bool) -> String {
    let mut text = String::new();
    let mut line = |content: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{content}");
    };
    line(format_args!("{}", shown(&file.path)));
    let kind = kind_name(file.kind);
    let class = match file.encoding.class {
        Class::Bits32 => "32-bit ",
        Class::Bits64 => "",
    };
    line(format_args!(
        "  {class}{kind}, {} pages, on {}",
        file.geometry, file.filesystem
    ));
    if file.text == 0 {
        line(format_args!("  no text"));
        return text;
    }
    let (now, after) = (
        percent(file.reached, file.text),
        percent(file.after_fix, file.text),
    );
    let merge = file
        .possible
        .iter()
        .find(|way| way.strategy == Strategy::Merge);
    let merge = merge.filter(|way| way.refusal.is_none() && way.leaf != file.leaf);
    let by = merge.map_or(String::new(), |way| format!(" by {} leaves", way.leaf));
    let merged = percent(file.after_merge, file.text);
    let (size, leaf) = (bytes(file.text), file.leaf);
    line(format_args!(
        "  text {size}: {leaf} leaves reach {now} now, {after} after fix, {merged}{by} merged"
    ));
    for cause in &file.causes {
        line(format_args!("  {cause}"));
    }
    text.push_str(&remedy(file));
    if !verbose {
        text.push_str(&forbidden(file));
    }
    text.push_str(&cold_start(file, verbose));
    if verbose {
        text.push_str(&refusals(file));
    }
    if let Some(cache) = &file.cache {
        text.push_str(&page_cache(cache, !file.is_forbidden()));
    }
    if let Some(found) = &file.as_found {
        text.push_str(&as_found(found));
    }
    text.push_str(&segments(file, verbose));
    text
}

/// What a fix would do, if it gains anything, and the link options that would have avoided it.
fn remedy(file: &Assessment) -> String {
    let weakest = file
        .possible
        .iter()
        .find(|p| p.reached > 0 && p.reached == file.after_fix);
    let Some(fix) = weakest.filter(|_| file.after_fix > file.reached) else {
        return String::new();
    };
    let cost = match fix.aslr_bits {
        0 => String::new(),
        bits => format!(", costs {} of ASLR", count(bits, "bit")),
    };
    let how = match fix.strategy {
        Strategy::Align => " (a header edit)",
        Strategy::Shift | Strategy::Merge => "",
    };
    let mut text = format!("  fix: {}{how}{cost}\n", fix.strategy);
    if let Some(linker) = &file.linker {
        let at_link_time = match linker.options(file.leaf) {
            Some(options) => format!("; with {options} at link time, no fix is needed"),
            None => String::new(),
        };
        let _ = writeln!(text, "  linked by {linker}{at_link_time}");
    }
    text
}

/// The windows that glibc's tunable makes huge on a cold start, and what would change that; with
/// `verbose`, for every asker, with its rule and the windows that are not huge.
fn cold_start(file: &Assessment, verbose: bool) -> String {
    let mut text = String::new();
    for found in &file.self_warming {
        let main = found.asker == Asker::GlibcTunable;
        if found.now.windows == 0 || !(main || verbose) {
            continue;
        }
        text.push_str(&warms_itself(found));
        if let Some(refusal) = found.refusal.as_ref().filter(|_| main) {
            let _ = writeln!(text, "    no cut: {refusal}");
        }
        if verbose {
            text.push_str(&rule(found));
        }
    }
    text
}

/// How many windows are huge, now and after a fix.
fn warms_itself(found: &SelfWarming) -> String {
    let SelfWarming { asker, now, .. } = found;
    let mut text = format!("  warms itself: {now} with {asker}");
    if now.spoiled > 0 {
        let _ = write!(text, ", {} spoiled by reads of headers", now.spoiled);
    }
    let after = found.after_fix.as_ref();
    if let Some(after) = after.filter(|after| after.huge > now.huge) {
        let _ = write!(text, "; at most {} after fix --self-warming", after.huge);
    }
    text.push('\n');
    let promises = now.huge > 0 || after.is_some_and(|after| after.huge > 0);
    if let Some(readahead) = found.long_readahead.filter(|_| promises) {
        let _ = writeln!(text, "    {}", fewer_by_readahead(readahead));
    }
    text
}

/// What the asker does, and the windows that it does not make huge.
fn rule(found: &SelfWarming) -> String {
    let rule = found.asker.rule();
    let mut text = format!("    since: {}; asks for: {}\n", rule.since, rule.asks_for);
    let _ = writeln!(text, "    aligns: {}", rule.aligns);
    let _ = writeln!(text, "    by {}; {}", rule.source, rule.evidence);
    let runs = found.now.runs.iter();
    for run in runs.filter(|run| run.outcome != WindowOutcome::Huge) {
        let WindowRun { addresses, outcome } = run;
        let Span { start, end } = addresses;
        let _ = writeln!(text, "    not huge: {start:#x} to {end:#x}, {outcome}");
    }
    text
}

/// Why `fix` refuses the file, where it would gain by it.
fn forbidden(file: &Assessment) -> String {
    let gains_nothing = file.after_fix <= file.reached && file.reached < file.text;
    let shift = file
        .possible
        .iter()
        .find(|way| way.strategy == Strategy::Shift && way.is_forbidden);
    match shift.and_then(|way| way.refusal.as_ref()) {
        Some(refusal) if gains_nothing => format!("  no fix: {refusal}\n"),
        _ => String::new(),
    }
}

/// Why some strategies of `fix` cannot be carried out.
fn refusals(file: &Assessment) -> String {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for possible in &file.possible {
        let Some(refusal) = &possible.refusal else {
            continue;
        };
        let name = possible.strategy.name();
        match found.last_mut() {
            Some((last, names)) if last == refusal => names.push(name),
            _ => found.push((refusal, vec![name])),
        }
    }
    let line = |(why, names): (&str, Vec<&str>)| format!("  no {}: {why}\n", names.join(", "));
    found.into_iter().map(line).collect()
}

/// The state of the windows. `warm` is named only where large folios are available.
fn page_cache(cache: &WindowCounts, can_be_warm: bool) -> String {
    let what = match (cache.huge, cache.small) {
        (0, 0) => "not in memory".to_owned(),
        (huge, 0) if huge == cache.total() => "warm".to_owned(),
        (_, 0) => "partly in memory".to_owned(),
        (_, small) if can_be_warm => {
            format!("holds {small} in small folios; hugetext warm makes them huge")
        }
        (_, small) => format!("holds {small} in small folios"),
    };
    let (huge, windows) = (cache.huge, count(cache.total(), "window"));
    format!("  page cache: {huge} of {windows} huge; {what}\n")
}

/// In which folios the text lies as found.
fn as_found(found: &AsFound) -> String {
    let absent = match found {
        AsFound::Folios(found) if found.absent > 0 && found.cached > 0 => {
            format!("; {} is not cached", bytes(found.absent))
        }
        _ => String::new(),
    };
    format!("  as found: {found}{absent}\n")
}

/// The text segments; with `verbose`, all segments.
fn segments(file: &Assessment, verbose: bool) -> String {
    let mut text = String::new();
    let Some(layout) = file.layout() else {
        return text;
    };
    for (index, segment) in file.segments.iter().enumerate() {
        let own = layout.segments.iter().find(|reach| reach.segment == index);
        if own.is_none() && !verbose {
            continue;
        }
        let size = bytes(segment.filesz);
        let (address, offset, perms) = (segment.vaddr, segment.offset, segment.perms);
        let _ = write!(text, "  {perms} {address:#x} offset {offset:#x} {size}");
        if let Some(reach) = own {
            let windows = reach.windows.len() / file.leaf.bytes();
            let causes: Vec<String> = reach.causes.iter().map(ToString::to_string).collect();
            let _ = write!(text, ": {}", count(windows, "window"));
            if !causes.is_empty() {
                let _ = write!(text, "; {}", causes.join("; "));
            }
        }
        text.push('\n');
    }
    text
}

fn summary(report: &CheckReport) -> String {
    let sum = &report.summary;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, {} of text: {} ({}) within reach now, {} ({}) after fix",
        count(sum.files, "ELF file"),
        bytes(sum.text),
        bytes(sum.reached),
        percent(sum.reached, sum.text),
        bytes(sum.after_fix),
        percent(sum.after_fix, sum.text),
    );
    if sum.unknown_architecture > 0 {
        let left_out = count(sum.unknown_architecture, "file");
        let _ = writeln!(
            text,
            "{left_out} of unknown page size left out; --geometry includes them"
        );
    }
    let mut worst: Vec<&Assessment> = report
        .files
        .iter()
        .filter(|file| file.after_fix > file.reached)
        .collect();
    worst.sort_by_key(|file| Reverse(file.after_fix - file.reached));
    if worst.is_empty() {
        return text;
    }
    let rows = worst.iter().take(WORST).map(|file| {
        vec![
            bytes(file.after_fix - file.reached),
            bytes(file.text),
            percent(file.reached, file.text),
            percent(file.after_fix, file.text),
            shown(&file.path),
        ]
    });
    let header = ["gain", "text", "now", "after fix", "file"];
    let _ = writeln!(text, "\n{}", figures(&header, &[4], rows.collect()));
    if worst.len() > WORST {
        let _ = writeln!(
            text,
            "and {} more; --verbose or --json shows them",
            worst.len() - WORST
        );
    }
    text
}

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Executable => "executable at a fixed address",
        ObjectKind::Pie => "position-independent executable",
        ObjectKind::StaticPie => "static position-independent executable",
        ObjectKind::SharedObject => "shared object",
    }
}
