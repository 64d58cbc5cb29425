//! The options of the benchmarks, and the settings that they stand for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use hugetext_answer::RoundsArgument;
use hugetext_bench::{
    ExecSettings, Leave, LiveSettings, Naming, PerRound, Rival, Source, WORKLOADS, WorkSettings,
    Workload,
};

use crate::failure::Failure;
use crate::process_choice::{Absent, ProcessChoice};

/// Start a command repeatedly, with its text in small and huge folios, unchanged and rewritten
#[derive(Debug, Args)]
pub(super) struct ExecArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Runs of each side per round; many, because kernels tell user from system time by samples [default: at most 60, and
    /// so many that 12 rounds take about a minute]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_round: Option<u32>,
    /// The program or library whose text is warmed and rewritten [default: the one that holds most of the text that the
    /// command maps]
    #[arg(long, value_name = "PATH", requires = "command")]
    program: Option<PathBuf>,
    /// Measure a copy for the unchanged sides too, because other processes run the program
    #[arg(long)]
    copy: bool,
    /// Directory for the copies, which are removed afterwards [default: the directory for temporary
    /// files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Kill a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    #[command(flatten)]
    rivals: RivalArgument,
    /// The command [default: an empty compile by cc1, and /bin/true]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl ExecArguments {
    pub(super) fn settings(&self) -> ExecSettings {
        ExecSettings {
            rounds: self.rounds.into(),
            per_round: self.per_round.map_or(PerRound::Minute, PerRound::Runs),
            program: self.program.clone(),
            copy: self.copy,
            directory: self.directory.clone(),
            timeout: self.timeout,
            rivals: self.rivals.rivals.clone(),
            command: self.command.clone(),
        }
    }
}

/// Do real work of compilers, interpreters and databases, with its text in small and huge folios,
/// unchanged and rewritten
#[derive(Debug, Args)]
pub(super) struct WorkArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Runs of each side per round
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_round: u32,
    /// Directory for inputs and copies, which are removed afterwards [default: the directory for
    /// temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Kill a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    #[command(flatten)]
    rivals: RivalArgument,
    /// What to do [default: all that the installed packages allow]
    #[arg(value_name = "NAME", value_parser = workload())]
    names: Vec<Workload>,
}

/// Other ways to huge text.
#[derive(Debug, Args)]
struct RivalArgument {
    /// Measure another way to huge text in the same rounds: NAME=preload:LIBRARY,
    /// NAME=env:VARIABLE=VALUE, NAME=word:WORD (behind the command's name),
    /// NAME=prefix:COMMAND (words that run the command) or NAME=file:PATH (in the
    /// program's place)
    #[arg(long = "rival", value_name = "RIVAL")]
    rivals: Vec<Rival>,
}

/// The help lists their names.
fn workload() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(WORKLOADS.iter().map(|workload| workload.name)).try_map(|name| {
        let known = WORKLOADS.iter().find(|workload| workload.name == name);
        known.copied().ok_or("no such work")
    })
}

impl WorkArguments {
    pub(super) fn settings(&self) -> WorkSettings {
        let workloads = if self.names.is_empty() {
            WORKLOADS.to_vec()
        } else {
            self.names.clone()
        };
        WorkSettings {
            rounds: self.rounds.into(),
            per_round: self.per_round,
            workloads,
            directory: self.directory.clone(),
            timeout: self.timeout,
            rivals: self.rivals.rivals.clone(),
        }
    }
}

/// Compare a running service with its text on huge pages and off, again and again
///
/// Copies of its text are mapped and unmapped, as `hugetext promote` does it. What is compared is the
/// processor time for a unit of its work, which one of --count, --log, --metrics and --instructions
/// counts.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
#[command(group = clap::ArgGroup::new("work").required(true))]
pub(super) struct LiveArguments {
    #[command(flatten)]
    chosen: ProcessChoice,
    /// Units of work: the last number that this shell command prints
    #[arg(long, group = "work", value_name = "CMD")]
    count: Option<String>,
    /// Units of work: lines added to this log, which may be rotated
    #[arg(long, group = "work", value_name = "FILE")]
    log: Option<PathBuf>,
    /// Units of work: a counter of the Prometheus endpoint at this http address
    #[arg(long, group = "work", value_name = "URL", requires = "counter")]
    metrics: Option<String>,
    /// The name of that counter, summed over its labels
    #[arg(long, value_name = "NAME", requires = "metrics")]
    counter: Option<String>,
    /// Units of work: millions of instructions that the processes retire in user mode, by the
    /// processor's counters; only for a service that never waits by spinning or polling
    #[arg(long, group = "work")]
    instructions: bool,
    /// Length of a period in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    period: u64,
    /// Time after each switch that is not measured, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    settle: u64,
    /// The most pairs of periods; the answer may be clear earlier
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pairs: u32,
    /// The difference that matters: stop when it is sure that there is none as large
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = share)]
    matters: f64,
    /// What the processes are left with in the end, also after Ctrl-C
    #[arg(long, value_enum, default_value_t = LeaveArgument::AsFound)]
    leave: LeaveArgument,
    /// Stop with an error after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
}

/// What the processes are left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LeaveArgument {
    /// What they had before
    AsFound,
    /// Text on huge pages
    Promoted,
    /// The files' own pages
    Reverted,
}

impl From<LeaveArgument> for Leave {
    fn from(argument: LeaveArgument) -> Leave {
        match argument {
            LeaveArgument::AsFound => Leave::AsFound,
            LeaveArgument::Promoted => Leave::Promoted,
            LeaveArgument::Reverted => Leave::Reverted,
        }
    }
}

impl LiveArguments {
    /// With the processes that there are now: what starts later is not measured.
    pub(super) fn settings(&self) -> Result<LiveSettings, Failure> {
        let pids = self.chosen.processes(Absent::Error)?;
        if pids.is_empty() {
            let words = self.chosen.words().join(" ");
            return Err(Failure::new(words, "no process is running there"));
        }
        Ok(LiveSettings {
            pids,
            named: self.chosen.words(),
            naming: if self.chosen.is_by_id() {
                Naming::Each
            } else {
                Naming::Together
            },
            work: self.work(),
            period: Duration::from_millis(self.period),
            settle: Duration::from_millis(self.settle),
            pairs: self.pairs,
            matters: self.matters / 100.0,
            leave: self.leave.into(),
            timeout: self.timeout,
        })
    }

    fn work(&self) -> Source {
        match (&self.count, &self.log, &self.metrics) {
            (Some(command), _, _) => Source::Command(command.clone()),
            (None, Some(log), _) => Source::Log(log.clone()),
            (None, None, Some(url)) => Source::Metric {
                url: url.clone(),
                // It is required with --metrics.
                name: self.counter.clone().unwrap_or_default(),
            },
            // One of the group is required.
            (None, None, None) => Source::Instructions,
        }
    }
}

/// A share in percent, above 0.
fn share(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if percent > 0.0 && percent <= 100.0 {
        Ok(percent)
    } else {
        Err("not above 0 and at most 100".to_owned())
    }
}
