//! `hugetext check --pid`: assesses the mappings of a running process.

use std::cmp::Reverse;
use std::fmt::Write;

use hugetext_engine::{Error, ProcessText, process_texts, text_nodes};
use hugetext_host::{Machine, Nodes, Pid, limit_listing};
use hugetext_leaf::Leaf;

use crate::documents::check::{ProcessCheck, ProcessCheckReport};
use crate::failure::Failure;
use crate::locality::summary;
use crate::meaning::{self, Meaning, ProcessesText, of_this_host};
use crate::output::Output;
use crate::path::mapped_file;
use crate::table::{bytes, percent};
use crate::verdict::Verdict;

/// Checks running processes. A process that cannot be read is an error; the others are still
/// checked.
pub(super) fn run(pids: &[Pid], require: Option<u8>, output: &Output) -> Result<Verdict, Failure> {
    limit_listing();
    let machine = Machine::this();
    let leaf = machine
        .pmd
        .ok_or_else(|| Error::no_huge_pages(&machine.release))?;
    let several = Some(Nodes::this()).filter(|nodes| nodes.all().len() > 1);
    let mut verdict = Verdict::Done;
    let mut processes = Vec::new();
    for pid in pids {
        match process(*pid, machine.page, leaf, several.as_ref()) {
            Ok(process) => processes.push(process),
            Err(error) => {
                output.error(&error.into());
                verdict = Verdict::Failed;
            }
        }
    }
    let report = ProcessCheckReport { processes };
    output.result("check --pid", &report, show)?;
    let falls_short = |process: &ProcessCheck| {
        require.is_some_and(|percent| process.actual * 100 < process.text * u64::from(percent))
    };
    let no = report.processes.iter().any(falls_short);
    Ok(verdict.and(Verdict::no_if(no)))
}

fn process(pid: Pid, page: Leaf, leaf: Leaf, nodes: Option<&Nodes>) -> Result<ProcessCheck, Error> {
    let mappings = process_texts(pid, page, leaf)?;
    let sum = |of: fn(&ProcessText) -> u64| mappings.iter().map(of).sum();
    // A kernel that does not tell the nodes still tells the rest.
    let nodes = nodes.and_then(|nodes| text_nodes(pid, leaf, nodes).ok());
    Ok(ProcessCheck {
        pid,
        nodes,
        leaf,
        text: sum(|text| text.mapping.addresses.len()),
        reached: sum(|text| text.reached),
        actual: sum(|text| text.mapping.pmd_mapped),
        mappings,
    })
}

fn show(report: &ProcessCheckReport) -> String {
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
        if let Some(nodes) = &process.nodes {
            let _ = writeln!(text, "  {}", summary(nodes));
        }
        for live in &process.mappings {
            let _ = write!(
                text,
                "  {:#x} {}: {} in reach, {} huge  {}",
                live.mapping.addresses.start,
                bytes(live.mapping.addresses.len()),
                bytes(live.reached),
                bytes(live.mapping.pmd_mapped),
                mapped_file(&live.mapping),
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
    let _ = write!(text, "{}", meaning_of(report));
    text
}

fn meaning_of(report: &ProcessCheckReport) -> Meaning {
    let mut processes: Vec<&ProcessCheck> = report.processes.iter().collect();
    processes.sort_by_key(|process| Reverse(process.text - process.actual.min(process.text)));
    let sum = |of: fn(&ProcessCheck) -> u64| report.processes.iter().map(of).sum();
    let text = ProcessesText {
        pids: processes.iter().map(|process| process.pid).collect(),
        resident: sum(|process| process.text),
        huge: sum(|process| process.actual),
        reached: Some(sum(|process| process.reached)),
    };
    let leaf = processes.first().map_or(Leaf::M2, |process| process.leaf);
    meaning::processes(&text, leaf, of_this_host())
}
