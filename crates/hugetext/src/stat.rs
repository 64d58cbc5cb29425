//! `hugetext stat`: the leaf sizes that map the text of running processes.

use std::cmp::Reverse;
use std::fmt::Write;
use std::fs::File;

use clap::Args;
use hugetext_engine::{TextNodes, text_nodes};
use hugetext_host::{
    FolioBytes, Machine, Nodes, PageMapError, Pid, ProcessError, TextMapping, folio_bytes,
    limit_listing, pids, process_name, text_mappings,
};

use hugetext_leaf::Leaf;

use crate::documents::stat::{MappingStat, ProcessStat, StatReport, TextTotal};
use crate::failure::Failure;
use crate::locality::{node_table, remote, summary};
use crate::meaning::{self, Meaning, ProcessesText, of_this_host};
use crate::output::Output;
use crate::path::mapped_file;
use crate::table::{bytes, figures, percent};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Process ids
    #[arg(required_unless_present = "all", allow_negative_numbers = true)]
    pids: Vec<Pid>,
    /// Show every process that this user may inspect, one line each
    #[arg(long, conflicts_with = "pids")]
    all: bool,
    /// Also show on which NUMA nodes the text lies, and which of them run the process
    #[arg(long)]
    nodes: bool,
}

/// Answers `hugetext stat`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    limit_listing();
    let machine = Machine::this();
    let nodes = arguments.nodes.then(Nodes::this);
    let everyone = || pids().map_err(|error| Failure::new("/proc", error));
    let wanted = if arguments.all {
        everyone()?
    } else {
        arguments.pids.clone()
    };
    let window = machine.pmd.unwrap_or(machine.page);
    let bar = output.progress("processes", wanted.len() as u64);
    let mut verdict = Verdict::Done;
    let mut processes = Vec::new();
    for pid in wanted {
        bar.inc(1);
        match process(pid, &machine, !arguments.all) {
            Ok(mut process) => {
                match nodes.as_ref().map(|nodes| text_nodes(pid, window, nodes)) {
                    Some(Err(error)) if !arguments.all => {
                        output.error(&error.into());
                        verdict = Verdict::Failed;
                    }
                    found => process.nodes = found.and_then(Result::ok),
                }
                processes.push(process);
            }
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
    let report = StatReport { folios, processes };
    let show = if arguments.all { show_all } else { show_each };
    output.result("stat", &report, |report| {
        let meaning = meaning_of(report, window, arguments.all);
        format!("{}\n{meaning}", show(report).trim_end())
    })?;
    Ok(verdict)
}

fn process(pid: Pid, machine: &Machine, by_folio: bool) -> Result<ProcessStat, ProcessError> {
    let mut total = TextTotal::default();
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
        mappings.push(MappingStat {
            text,
            folios: folios.transpose().unwrap_or(None),
        });
    }
    Ok(ProcessStat {
        pid,
        name: process_name(pid),
        total,
        mappings,
        nodes: None,
    })
}

/// What the figures mean: those of all processes together or, with `--all`, those of the first, which has most text.
fn meaning_of(report: &StatReport, window: Leaf, all: bool) -> Meaning {
    let mut processes: Vec<&ProcessStat> = report.processes.iter().collect();
    processes.sort_by_key(|process| {
        let TextTotal {
            rss, pmd_mapped, ..
        } = process.total;
        Reverse(rss.saturating_sub(pmd_mapped))
    });
    processes.truncate(if all { 1 } else { usize::MAX });
    let sum = |of: fn(&TextTotal) -> u64| processes.iter().map(|process| of(&process.total)).sum();
    let text = ProcessesText {
        pids: processes.iter().map(|process| process.pid).collect(),
        resident: sum(|total| total.rss),
        huge: sum(|total| total.pmd_mapped),
        reached: None,
    };
    let meaning = meaning::processes(&text, window, of_this_host());
    match processes.first() {
        Some(process) if all => Meaning {
            says: format!(
                "{} ({}) has most small text. {}",
                process.pid, process.name, meaning.says
            ),
            ..meaning
        },
        _ => meaning,
    }
}

fn folios(
    pagemap: &File,
    text: &TextMapping,
    machine: &Machine,
) -> Result<FolioBytes, PageMapError> {
    let contpte = machine.geometry.and_then(|geometry| geometry.contpte);
    folio_bytes(pagemap, text.addresses, machine.pmd, contpte)
}

fn show_each(report: &StatReport) -> String {
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
        if let Some(nodes) = &process.nodes {
            text.push_str(&show_nodes(nodes, process));
        }
        let rows = process
            .mappings
            .iter()
            .map(|mapping| row(mapping, report.folios))
            .collect();
        let header: &[&str] = if report.folios {
            &[
                "address", "size", "RSS", "PSS", "PMD", "contpte", "large", "base", "file",
            ]
        } else {
            &["address", "size", "RSS", "PSS", "PMD", "other", "file"]
        };
        let _ = writeln!(text, "{}", figures(header, &[header.len() - 1], rows));
    }
    if !report.folios {
        text.push_str("folio sizes below the PMD size are visible to root only\n");
    }
    text
}

/// Where the text lies and where it runs; a table where there are several nodes.
fn show_nodes(nodes: &TextNodes, process: &ProcessStat) -> String {
    let file = |start: u64| {
        let mut mappings = process.mappings.iter();
        let found = mappings.find(|mapping| mapping.text.addresses.start == start);
        found.map(|mapping| mapped_file(&mapping.text))
    };
    let table = node_table(nodes, |start| file(start).unwrap_or_default());
    format!("{}\n{table}", summary(nodes))
}

fn row(mapping: &MappingStat, by_folio: bool) -> Vec<String> {
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
    row.push(mapped_file(text));
    row
}

fn show_all(report: &StatReport) -> String {
    let with_nodes = report
        .processes
        .iter()
        .any(|process| process.nodes.is_some());
    let rows = report.processes.iter().map(|process| {
        let total = &process.total;
        let mut row = vec![
            process.pid.to_string(),
            bytes(total.rss),
            bytes(total.pss),
            bytes(total.pmd_mapped),
            percent(total.pmd_mapped, total.rss),
        ];
        if with_nodes {
            row.push(remote(process.nodes.as_ref()));
        }
        row.push(process.name.clone());
        row
    });
    let mut header = vec!["pid", "text RSS", "text PSS", "by PMD leaves", "share"];
    header.extend(with_nodes.then_some("remote"));
    header.push("name");
    figures(&header, &[header.len() - 1], rows.collect())
}
