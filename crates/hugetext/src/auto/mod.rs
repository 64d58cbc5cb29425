//! `hugetext auto`: the daemon that finds out what to keep on huge pages, and what it says.

mod show;
mod top;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use hugetext_auto::config::{self, ConfigError};
use hugetext_auto::daemon::{Daemon, DaemonError, Event, PromotionNews, Settings};
use hugetext_auto::fixed::FixedList;
use hugetext_auto::sight::SourceName;
use hugetext_auto::status::{ReplicaStatus, State};
use hugetext_auto::{STATE_PATH, look_at};
use hugetext_engine::keep::{absolute_entry, list_directories};
use hugetext_engine::running::REQUESTS_DIRECTORY;

use crate::documents::auto::{AutoEvent, Explanation, StatusReport};
use crate::failure::Failure;
use crate::output::Output;
use crate::path::shown;
use crate::run_directory::RunDirectory;
use crate::table::{bytes, count};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    daemon: DaemonOptions,
    #[command(flatten)]
    place: RunDirectory,
}

#[derive(Debug, Args)]
struct DaemonOptions {
    /// Only report what would be done, also if the configuration says mode = "act"
    #[arg(long)]
    observe: bool,
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = config::PATH)]
    config: PathBuf,
    /// What is remembered across restarts
    #[arg(long, value_name = "FILE", default_value = STATE_PATH)]
    state: PathBuf,
    /// The directory of lists, which are held first [default: /etc/hugetext/keep.d and the user's own]
    #[arg(long, value_name = "DIR")]
    lists: Option<PathBuf>,
    /// The directory for fixed copies of what the lists name, which `run` also uses
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where `hugetext nri` says which pods ask for promotion, for rules with verdict = "promote-if-asked"
    #[arg(long, value_name = "DIR", default_value = REQUESTS_DIRECTORY)]
    requests: PathBuf,
    /// How to see what is started
    #[arg(long, value_enum, default_value_t = SourceChoice::Best)]
    by: SourceChoice,
}

/// How to see what is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SourceChoice {
    /// By the first of the others that is permitted
    Best,
    /// By the records that the kernel makes for profilers (CAP_PERFMON)
    Records,
    /// By the proc connector and fanotify (root)
    Reports,
    /// By looking at all processes every two seconds
    Scan,
}

impl SourceChoice {
    fn source(self) -> Option<SourceName> {
        match self {
            SourceChoice::Best => None,
            SourceChoice::Records => Some(SourceName::Records),
            SourceChoice::Reports => Some(SourceName::Reports),
            SourceChoice::Scan => Some(SourceName::Scan),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print what is held, what it gives, what was refused and why, and what waits
    Status {
        /// Print every file, and not only the first 20 of each state
        #[arg(long)]
        all: bool,
    },
    /// Print what is known of a program or library, and why it is held or not
    ///
    /// Exits with 1 if it is not held.
    Why {
        /// A path, or a command on PATH
        program: PathBuf,
    },
    /// Show programs by processor time, starts, text and the share of it on huge pages
    ///
    /// Every user sees their own processes, root sees all. Starts and states are those that the daemon knows.
    Top(top::Arguments),
}

/// Runs `hugetext auto`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let place = &arguments.place;
    match &arguments.task {
        None => daemon(&arguments.daemon, place, output),
        Some(Task::Status { all }) => {
            let report = StatusReport::new(place.read(output)?);
            output.result("auto status", &report, |report| show::status(report, *all))?;
            Ok(Verdict::Done)
        }
        Some(Task::Why { program }) => why(program, place, output),
        Some(Task::Top(arguments)) => top::run(arguments, place, output),
    }
}

fn daemon(
    options: &DaemonOptions,
    place: &RunDirectory,
    output: &Output,
) -> Result<Verdict, Failure> {
    let directories = match &options.lists {
        Some(directory) => vec![directory.clone()],
        None => list_directories(),
    };
    let lists = FixedList::new(directories, options.store.clone());
    let lists = lists.map_err(|error| Failure::new("inotify", error))?;
    let settings = Settings {
        config: options.config.clone(),
        state: options.state.clone(),
        status: place.path().to_owned(),
        requests: options.requests.clone(),
        observe: options.observe,
        source: options.by.source(),
        lists: Some(lists),
    };
    let mut tell = |event: Event| tell(&event, output);
    let ended = Daemon::new(settings, &mut tell).and_then(|mut daemon| daemon.run());
    ended.map_err(failure)?;
    Ok(Verdict::Done)
}

fn failure(error: DaemonError) -> Failure {
    match error {
        DaemonError::Config(error) => bad_config(&error),
        DaemonError::Host(error) => Failure::from(error),
        DaemonError::System { what, error } => Failure::new(what, error),
    }
}

fn bad_config(error: &ConfigError) -> Failure {
    let (subject, problem) = match error {
        ConfigError::Read { path, error } => (shown(path), error.to_string()),
        ConfigError::Line {
            path,
            line,
            problem,
        } => (format!("{}:{line}", shown(path)), problem.clone()),
    };
    Failure::new(subject, problem).remedy("correct it; hugetext-auto(1) has all settings")
}

fn tell(event: &Event, output: &Output) {
    let (event, path, bytes, reason) = match event {
        Event::Began {
            source,
            mode,
            costs,
        } => {
            let costs = show::costs(&costs.into());
            let reason = format!("{mode:?} by {source:?}; {costs}");
            ("begun", PathBuf::new(), 0, reason)
        }
        Event::Held { path, bytes } => ("held", path.clone(), *bytes, String::new()),
        Event::Released {
            path,
            bytes,
            reason,
        } => ("released", path.clone(), *bytes, reason.clone()),
        Event::Promotion(PromotionNews::Promoted { pid, name, bytes }) => (
            "promoted",
            PathBuf::new(),
            *bytes,
            format!("{name} ({pid})"),
        ),
        Event::Promotion(PromotionNews::Reverted { pid, name, bytes }) => (
            "reverted",
            PathBuf::new(),
            *bytes,
            format!("{name} ({pid})"),
        ),
        Event::Promotion(PromotionNews::Failed { pid, reason }) => {
            return output.warn(format_args!("process {pid} was not promoted: {reason}"));
        }
        Event::Listed(report) => {
            for problem in &report.problems {
                output.warn(Failure::from(problem.clone()));
            }
            let (files, over) = (report.files, bytes(report.over));
            let reason = format!(
                "{} of the lists, {over} over the budget",
                count(files, "file")
            );
            ("listed", PathBuf::new(), report.locked, reason)
        }
        Event::BadConfig(error) => {
            let failure = bad_config(error);
            return output.warn(format_args!("{failure}; the old configuration stays"));
        }
        Event::Problem(problem) => return output.warn(problem),
    };
    let told = AutoEvent {
        event,
        path,
        bytes,
        reason,
    };
    // A journal that is gone is no reason to end.
    let _ = output.event("auto", &told, line);
}

fn line(told: &AutoEvent) -> String {
    let mut line = told.event.to_owned();
    if told.bytes > 0 {
        line = format!("{line} {}", bytes(told.bytes));
    }
    if !told.path.as_os_str().is_empty() {
        line = format!("{line} of {}", shown(&told.path));
    }
    if !told.reason.is_empty() {
        line = format!("{line}: {}", told.reason);
    }
    line
}

fn why(program: &Path, place: &RunDirectory, output: &Output) -> Result<Verdict, Failure> {
    let status = place.read(output)?;
    let path = found(program)?;
    // The document is text, and a path may be none.
    let text = path.to_string_lossy();
    let is_it = |named: &Path| named.to_string_lossy() == text;
    let known = status
        .files
        .iter()
        .find(|file| is_it(&file.path) || is_it(&file.name));
    let mut reason = match known {
        Some(known) => known.reason.clone(),
        None => unknown(&path)?,
    };
    let named = |replica: &&ReplicaStatus| replica.name.as_deref().is_some_and(is_it);
    if let Some(replica) = status.replicas.iter().find(named) {
        let (starts, advice) = (
            replica.advised.starts_per_second,
            show::advice(replica.advised.decision),
        );
        reason = format!("{reason}; {starts} processes started with it in a second: {advice}");
    }
    let is_held = known.is_some_and(|known| known.state == State::Held);
    let why = Explanation {
        path,
        known: known.cloned(),
        reason,
    };
    output.result("auto why", &why, |why| {
        show::why(why.known.as_ref(), &why.path, &why.reason)
    })?;
    Ok(Verdict::no_if(!is_held))
}

/// A path as the kernel names it, of a path or a command on PATH.
fn found(program: &Path) -> Result<PathBuf, Failure> {
    let path = match program.to_str() {
        Some(text) => Path::new(&absolute_entry(text)).canonicalize(),
        None => program.canonicalize(),
    };
    path.map_err(|error| Failure::io(program, &error))
}

/// Why the daemon knows nothing of a program.
fn unknown(path: &Path) -> Result<String, Failure> {
    let found = look_at(path).map_err(|error| Failure::io(path, &error))?;
    Ok(match found {
        None => {
            "nothing to hold: its text fills no window of a huge page; `hugetext check` says more"
                .to_owned()
        }
        Some(text) => match text.obstacle {
            Some(obstacle) => obstacle,
            None => "it was not seen to run, or too rarely to be listed".to_owned(),
        },
    })
}
