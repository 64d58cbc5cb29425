//! `hugetext keep`: a list of programs to keep warm, and the commands that keep them warm.

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hugetext_engine::Problem;
use hugetext_engine::keep::{
    KeepList, KeepOutcome, absolute_entry, keep_warm, list_directories, own_list_directory,
    read_lists,
};
use hugetext_host::limit_listing;

use crate::documents::keep::KeepReport;
use crate::failure::Failure;
use crate::meaning;
use crate::output::Output;
use crate::path::shown;
use crate::table::{bytes, figures};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Args)]
struct Options {
    /// The directory of lists [default: /etc/hugetext/keep.d and the user's own]
    #[arg(long, value_name = "DIR", global = true)]
    lists: Option<PathBuf>,
    /// The directory for fixed copies, which `run` also uses
    #[arg(long, value_name = "DIR", global = true)]
    store: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Add entries to the list; `apply` and the daemon of `hugetext auto` keep them warm from then on
    Add(Entries),
    /// Remove entries from the list
    Rm(Entries),
    /// Print all lists as one
    Ls,
    /// Warm everything listed, and fix copies of the files that need it; finished work is not
    /// repeated
    ///
    /// Exits with 1 if a listed file is missing or not fully warm.
    Apply,
    // Gone; it says what does its work.
    #[command(hide = true)]
    Daemon {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
struct Entries {
    /// Paths, which may not exist yet, globs, directories to search, and commands on PATH
    #[arg(required_unless_present_any = ["packages", "units"],
          value_parser = OsStringValueParser::new().try_map(listable))]
    paths: Vec<String>,
    /// An installed package
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// A systemd unit; its ExecStart programs are kept
    #[arg(long = "unit", value_name = "NAME")]
    units: Vec<String>,
}

/// A path in the form of a list, which is text.
fn listable(path: OsString) -> Result<String, &'static str> {
    let told = "a list is UTF-8 text and cannot hold this name; add its directory";
    path.into_string().map_err(|_| told)
}

/// The file that `add` and `rm` change.
const OWN_LIST: &str = "local.toml";
/// The lock file next to it.
const LOCK: &str = ".lock";
/// How long they wait for the lock: many times the duration of a change.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `hugetext keep`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    limit_listing();
    let options = &arguments.options;
    match &arguments.task {
        Task::Add(entries) => edit(options, |list| add(list, entries)),
        Task::Rm(entries) => {
            directories(options)?;
            edit(options, |list| remove(list, entries))
        }
        Task::Ls => {
            let (list, verdict) = read(&directories(options)?, output);
            output.result("keep ls", &list, |list| {
                toml::to_string_pretty(list).unwrap_or_default()
            })?;
            Ok(verdict)
        }
        Task::Apply => {
            let (list, verdict) = read(&directories(options)?, output);
            let outcome = keep_warm(&list, options.store.as_deref())?;
            let verdict = verdict.and(Verdict::no_if(!outcome.is_done()));
            let report = KeepReport::of(outcome);
            output.result("keep apply", &report, show)?;
            report
                .problems
                .iter()
                .for_each(|problem| output.warn(problem));
            Ok(verdict)
        }
        Task::Daemon { .. } => {
            let gone = Failure::new(
                "keep daemon",
                "the daemon of `hugetext auto` holds the lists",
            );
            Err(gone.remedy("use that: systemctl enable --now hugetext-auto"))
        }
    }
}

/// The directories to read. A directory that the user named must exist.
fn directories(options: &Options) -> Result<Vec<PathBuf>, Failure> {
    let Some(named) = &options.lists else {
        return Ok(list_directories());
    };
    match std::fs::read_dir(named) {
        Ok(_) => Ok(vec![named.clone()]),
        Err(error) => Err(no_directory(named, &error)),
    }
}

fn no_directory(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::io(path, error);
    match error.kind() {
        ErrorKind::NotFound => failure.remedy("`hugetext keep add` makes it"),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            failure.remedy("name the directory that lists are in")
        }
        _ => failure,
    }
}

/// All lists as one. An error is printed for each unreadable one.
fn read(directories: &[PathBuf], output: &Output) -> (KeepList, Verdict) {
    let (list, failures) = read_lists(directories);
    let verdict = Verdict::failed_if(!failures.is_empty());
    for error in failures {
        output.error(&error.into());
    }
    (list, verdict)
}

/// Changes the user's own list.
fn edit(
    options: &Options,
    change: impl FnOnce(&mut KeepList) -> Result<(), Failure>,
) -> Result<Verdict, Failure> {
    let directory = options.lists.clone().or_else(own_list_directory);
    let directory = directory
        .ok_or_else(|| Failure::new("keep", "no home directory").remedy("name one with --lists"))?;
    std::fs::create_dir_all(&directory).map_err(|error| no_directory(&directory, &error))?;
    let _lock = lock(&directory)?;
    let path = directory.join(OWN_LIST);
    let mut list = KeepList::read(&path)?;
    change(&mut list)?;
    list.write(&path)?;
    Ok(Verdict::Done)
}

/// The lock during the reading, changing and writing of a list, so that no other process's entry is
/// lost.
fn lock(directory: &Path) -> Result<File, Failure> {
    let path = directory.join(LOCK);
    hugetext_host::lock(&path, PATIENCE).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            let failure = Failure::at(&path, "another process has held this lock for too long");
            failure.remedy("try again after that process has ended")
        }
        _ => Failure::io(&path, &error),
    })
}

fn add(list: &mut KeepList, entries: &Entries) -> Result<(), Failure> {
    let extend = |own: &mut Vec<String>, new: &[String]| {
        for entry in new {
            if !own.contains(entry) {
                own.push(entry.clone());
            }
        }
    };
    let paths: Vec<String> = entries.paths.iter().map(|e| absolute_entry(e)).collect();
    extend(&mut list.paths, &paths);
    extend(&mut list.packages, &entries.packages);
    extend(&mut list.units, &entries.units);
    Ok(())
}

fn remove(list: &mut KeepList, entries: &Entries) -> Result<(), Failure> {
    let take = |own: &mut Vec<String>, gone: &String, written: &String| {
        let before = own.len();
        own.retain(|kept| kept != gone && kept != written);
        if own.len() < before {
            return Ok(());
        }
        let failure = Failure::new(gone, "not in the list");
        Err(failure.remedy("`hugetext keep ls` prints the list"))
    };
    for path in &entries.paths {
        take(&mut list.paths, path, &absolute_entry(path))?;
    }
    for package in &entries.packages {
        take(&mut list.packages, package, package)?;
    }
    for unit in &entries.units {
        take(&mut list.units, unit, unit)?;
    }
    Ok(())
}

impl KeepReport {
    fn of(outcome: KeepOutcome) -> KeepReport {
        KeepReport {
            files: outcome.files,
            problems: lines(outcome.problems),
        }
    }
}

/// Problems, one line each.
fn lines(problems: Vec<Problem>) -> Vec<String> {
    let lines = problems.into_iter().map(Failure::from);
    lines.map(|failure| failure.to_string()).collect()
}

fn show(applied: &KeepReport) -> String {
    let done = applied.files.iter().filter(|file| file.done).count();
    let meaning = meaning::kept(applied.files.len(), done);
    if applied.files.is_empty() {
        return meaning.to_string();
    }
    let rows = applied.files.iter().map(|file| {
        let how = match (file.done, file.warm == file.path) {
            (true, true) if file.huge == 0 => "in the largest folios; it has no window",
            (false, true) if file.huge == 0 => "held as it is",
            (false, _) => "not fully warm: other processes use it",
            (true, true) => "warm",
            (true, false) => "a copy is warm, for `hugetext run`",
        };
        vec![bytes(file.huge), shown(&file.path), how.to_owned()]
    });
    let table = figures(&["huge", "file", "state"], &[1, 2], rows.collect());
    format!("{table}\n{meaning}")
}
