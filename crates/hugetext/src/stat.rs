//! `hugetext stat`: the leaf sizes that map the text of running processes.

use std::cmp::Reverse;
use std::fmt::Write;
use std::fs::File;

use clap::Args;
use hugetext_host::{
    FolioBytes, Machine, PageMapError, ProcessError, TextMapping, folio_bytes, pids, process_name,
    text_mappings,
};
use hugetext_leaf::CopyName;
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::path::shown;
use crate::table::{bytes, figures, percent};

/// Show the page sizes that map the text of running processes
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Process ids
    #[arg(required_unless_present = "all")]
    pids: Vec<i32>,
    /// Show every process that this user may inspect, one line each
    #[arg(long, conflicts_with = "pids")]
    all: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether folio sizes could be read. Without them, only PMD leaves are told from the rest.
    folios: bool,
    processes: Vec<Process>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: i32,
    name: String,
    total: Text,
    mappings: Vec<Mapping>,
}

/// Bytes of text, summed.
#[derive(Debug, Default, Serialize)]
struct Text {
    mapped: u64,
    rss: u64,
    pss: u64,
    pmd_mapped: u64,
}

#[derive(Debug, Serialize)]
struct Mapping {
    #[serde(flatten)]
    text: TextMapping,
    /// Resident bytes by folio size; absent without root.
    #[serde(skip_serializing_if = "Option::is_none")]
    folios: Option<FolioBytes>,
}

/// Answers `hugetext stat`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let machine = Machine::this();
    let everyone = || pids().map_err(|error| Failure::new("/proc", error));
    let wanted = if arguments.all {
        everyone()?
    } else {
        arguments.pids.clone()
    };
    let bar = output.progress("processes", wanted.len() as u64);
    let mut verdict = Verdict::Done;
    let mut processes = Vec::new();
    for pid in wanted {
        bar.inc(1);
        match process(pid, &machine, !arguments.all) {
            Ok(process) => processes.push(process),
            // --all skips processes of other users, processes that ended meanwhile and kernel
            // threads.
            Err(ProcessError::Gone | ProcessError::Forbidden | ProcessError::NoText)
                if arguments.all => {}
            Err(error) => {
                output.error(&Failure::process(pid, &error));
                verdict = Verdict::Failed;
            }
        }
    }
    bar.finish_and_clear();
    if arguments.all {
        processes.sort_by_key(|process| Reverse(process.total.rss));
    }
    let mut mappings = processes.iter().flat_map(|process| &process.mappings);
    let folios = mappings.all(|mapping| mapping.folios.is_some());
    let report = Report { folios, processes };
    let show = if arguments.all { show_all } else { show_each };
    output.result("stat", &report, show)?;
    Ok(verdict)
}

fn process(pid: i32, machine: &Machine, by_folio: bool) -> Result<Process, ProcessError> {
    let mut total = Text::default();
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))
        .ok()
        .filter(|_| by_folio);
    let mut mappings = Vec::new();
    for text in text_mappings(pid)? {
        total.mapped += text.addresses.len();
        total.rss += text.rss;
        total.pss += text.pss;
        total.pmd_mapped += text.pmd_mapped;
        let folios = pagemap
            .as_ref()
            .map(|pagemap| folios(pagemap, &text, machine));
        mappings.push(Mapping {
            text,
            folios: folios.transpose().unwrap_or(None),
        });
    }
    Ok(Process {
        pid,
        name: process_name(pid),
        total,
        mappings,
    })
}

fn folios(
    pagemap: &File,
    text: &TextMapping,
    machine: &Machine,
) -> Result<FolioBytes, PageMapError> {
    let contpte = machine.geometry.and_then(|geometry| geometry.contpte);
    folio_bytes(pagemap, text.addresses, machine.pmd, contpte)
}

fn show_each(report: &Report) -> String {
    let mut text = String::new();
    for process in &report.processes {
        let total = &process.total;
        let _ = writeln!(
            text,
            "{} ({}): {} of text in memory, {} by PMD leaves ({}), PSS {}",
            process.pid,
            process.name,
            bytes(total.rss),
            bytes(total.pmd_mapped),
            percent(total.pmd_mapped, total.rss),
            bytes(total.pss),
        );
        let rows = process
            .mappings
            .iter()
            .map(|mapping| row(mapping, report.folios))
            .collect();
        let header: &[&str] = match report.folios {
            true => &[
                "address", "size", "RSS", "PSS", "PMD", "contpte", "large", "base", "file",
            ],
            false => &["address", "size", "RSS", "PSS", "PMD", "other", "file"],
        };
        let _ = writeln!(text, "{}", figures(header, &[header.len() - 1], rows));
    }
    if !report.folios {
        text.push_str("folio sizes below the PMD size are visible to root only\n");
    }
    text
}

fn row(mapping: &Mapping, by_folio: bool) -> Vec<String> {
    let text = &mapping.text;
    let start = format!("{:#x}", text.addresses.start);
    let mut row = vec![
        start,
        bytes(text.addresses.len()),
        bytes(text.rss),
        bytes(text.pss),
    ];
    row.push(bytes(text.pmd_mapped));
    match mapping.folios.filter(|_| by_folio) {
        Some(folios) => {
            // PMD-order folios that PTEs map count as large here: the column before this one tells
            // what leaves map.
            let large = folios.large + folios.pmd.saturating_sub(text.pmd_mapped);
            row.extend([bytes(folios.contpte), bytes(large), bytes(folios.base)]);
        }
        None => row.push(bytes(text.rss.saturating_sub(text.pmd_mapped))),
    }
    row.push(file_of(text));
    row
}

/// The file of a mapping, for display. A promoted copy is shown by the name of its original.
pub(crate) fn file_of(text: &TextMapping) -> String {
    let Some(path) = &text.path else {
        return "[anonymous]".to_owned();
    };
    match (CopyName::in_maps(&path.to_string_lossy()), text.deleted) {
        (Some(copy), _) => format!("{} (promoted)", copy.basename),
        (None, true) => format!("{} (replaced)", shown(path)),
        (None, false) => shown(path),
    }
}

fn show_all(report: &Report) -> String {
    let rows = report.processes.iter().map(|process| {
        let total = &process.total;
        vec![
            process.pid.to_string(),
            bytes(total.rss),
            bytes(total.pss),
            bytes(total.pmd_mapped),
            percent(total.pmd_mapped, total.rss),
            process.name.clone(),
        ]
    });
    figures(
        &[
            "pid",
            "text RSS",
            "text PSS",
            "by PMD leaves",
            "share",
            "name",
        ],
        &[5],
        rows.collect(),
    )
}
