//! What a run did, as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

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

const HEAD: &str = "# Promotion under chaos

Made by `lab/measure promote-chaos`. Programs of this machine are promoted, with and without `--merge`, mapped back, and
given bounds that no stop can keep, in random order. Signals, SIGKILL and SIGSTOP meet the programs and the
command at random moments, many of them in the middle of a stop. After each run of the command, the process is
compared with what it was before: tracer, state, signal masks, pending and handled signals of its threads, the
calls in which they wait, open files, mappings with their rights, and every byte of text. The programs
check their own answers all the time, one of them all registers. A seed decides the steps; `HUGETEXT_CHAOS_SEED`
sets it.
";

/// The report.
pub(crate) fn markdown(figures: &Figures) -> String {
    let mut text = String::from(HEAD);
    let _ = write_figures(&mut text, figures);
    text
}

fn write_figures(text: &mut String, figures: &Figures) -> std::fmt::Result {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let command = if figures.is_command {
        "the command"
    } else {
        "the example `stop`"
    };
    writeln!(
        text,
        "\nSeed {}, by {command}, for {} s on Linux {}.\n",
        figures.seed,
        figures.took.as_secs(),
        kernel.trim()
    )?;
    writeln!(text, "| | |\n|---|---:|")?;
    let longest = figures.stops.iter().max().map_or(0, Duration::as_millis) as u64;
    let programs: u64 = figures.started.values().sum();
    for (what, number) in [
        ("steps", figures.steps),
        ("programs started", programs),
        ("runs of the command", figures.runs),
        (
            "stops of a process that changed it",
            figures.stops.len() as u64,
        ),
        ("longest of these stops, ms", longest),
        ("signals to programs", figures.signals as u64),
        ("SIGKILL to programs", figures.killed),
        ("SIGKILL to the command", figures.tracers_killed),
        ("SIGTERM to the command", figures.tracers_terminated),
        ("SIGSTOP and SIGCONT to the command", figures.tracers_held),
        (
            "programs that ended with a killed command, as promote.md says",
            figures.ended_with_tracer,
        ),
        ("audits", figures.audits),
        ("answers asked for", figures.answers),
        ("findings", figures.findings.len() as u64),
    ] {
        writeln!(text, "| {what} | {number} |")?;
    }
    for finding in &figures.findings {
        writeln!(text, "\n- {finding}")?;
    }
    writeln!(
        text,
        "\n## How the command ended\n\n| change | ending | times |\n|---|---|---:|"
    )?;
    for ((change, ending), times) in &figures.endings {
        writeln!(text, "| {} | {ending} | {times} |", change.to_lowercase())?;
    }
    writeln!(text, "\n## What it said\n\n| words | times |\n|---|---:|")?;
    for (words, times) in &figures.words {
        writeln!(text, "| {} | {times} |", words.replace('|', "\\|"))?;
    }
    writeln!(text, "\n## Programs\n\n| program | started |\n|---|---:|")?;
    for (name, times) in &figures.started {
        writeln!(text, "| {name} | {times} |")?;
    }
    for (name, why) in &figures.unable {
        writeln!(text, "| {name} | not here: {} |", why.replace('|', "\\|"))?;
    }
    Ok(())
}
