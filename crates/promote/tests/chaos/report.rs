//! What a run did, as the lines of a record: lab/reports/promote-chaos.md shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::run::Counts;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    seed: u64,
    is_command: bool,
    pub(crate) took: Duration,
    pub(crate) steps: u64,
    pub(crate) started: Counts,
    /// Programs that could not be started, with the reason.
    pub(crate) unable: BTreeMap<String, String>,
    pub(crate) runs: u64,
    pub(crate) stops: Vec<Duration>,
    /// By change and ending.
    pub(crate) endings: BTreeMap<(String, String), u64>,
    /// What tracers said.
    pub(crate) words: Counts,
    pub(crate) tracers_killed: u64,
    pub(crate) tracers_held: u64,
    pub(crate) tracers_terminated: u64,
    pub(crate) ended_with_tracer: u64,
    pub(crate) killed: u64,
    pub(crate) signals: usize,
    pub(crate) audits: u64,
    pub(crate) answers: u64,
    pub(crate) findings: Vec<String>,
}

impl Figures {
    pub(crate) fn new(seed: u64, is_command: bool) -> Figures {
        Figures {
            seed,
            is_command,
            ..Figures::default()
        }
    }
}

/// The record.
pub(crate) fn record(figures: &Figures) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let facts = [
        ("seed", json!(figures.seed)),
        ("is_command", json!(figures.is_command)),
        ("seconds", json!(figures.took.as_secs())),
        ("kernel", json!(kernel.trim())),
    ];
    let facts = facts.map(|(fact, value)| json!({ "fact": fact, "value": value }));
    let mut lines = Vec::from(facts);
    let mut row = |table: &str, cells: &[&str]| {
        lines.push(json!({ "table": table, "row": cells }));
    };
    for (what, number) in counts(figures) {
        row("figures", &[what, &number.to_string()]);
    }
    for ((change, ending), times) in &figures.endings {
        let change = change.to_lowercase();
        row("endings", &[&change, ending, &times.to_string()]);
    }
    for (words, times) in &figures.words {
        row("words", &[words, &times.to_string()]);
    }
    for (name, times) in &figures.started {
        row("programs", &[name, &times.to_string()]);
    }
    for (name, why) in &figures.unable {
        row("unable", &[name, why]);
    }
    let findings = figures.findings.iter();
    lines.extend(findings.map(|finding| json!({ "finding": finding })));
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect()
}

fn counts(figures: &Figures) -> [(&'static str, u64); 14] {
    let longest = figures.stops.iter().max().map_or(0, Duration::as_millis) as u64;
    [
        ("steps", figures.steps),
        ("started", figures.started.values().sum()),
        ("runs", figures.runs),
        ("stops", figures.stops.len() as u64),
        ("longest-stop-ms", longest),
        ("signals", figures.signals as u64),
        ("killed", figures.killed),
        ("tracers-killed", figures.tracers_killed),
        ("tracers-terminated", figures.tracers_terminated),
        ("tracers-held", figures.tracers_held),
        ("ended-with-tracer", figures.ended_with_tracer),
        ("audits", figures.audits),
        ("answers", figures.answers),
        ("findings", figures.findings.len() as u64),
    ]
}
