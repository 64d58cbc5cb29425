//! `hugetext check`: where text lies, which of it leaves can map, and why they cannot map the rest.

mod live;
mod same;
mod show;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use hugetext_elf::Linker;
use hugetext_engine::{
    Assessment, Error, HostContext, Look, Program, ProgramOnHost, ReadError, SelfWarming,
    text_elsewhere,
};
use hugetext_leaf::{FileId, Geometry, Kernel, Version};

use crate::command::file_or_command;
use crate::documents::check::{CheckReport, CheckSummary};
use crate::failure::Failure;
use crate::output::{Detail, Output};
use crate::scan::{self, Found};
use crate::verdict::Verdict;
use hugetext_host::Pid;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Executables and shared objects: paths, commands on PATH, or libraries by name, such as libc.so.6
    #[arg(required_unless_present_any = ["pid", "same"], value_parser = file_or_command())]
    paths: Vec<PathBuf>,
    /// Check this running process instead of files
    #[arg(long, allow_negative_numbers = true, conflicts_with_all = ["paths", "recursive", "kernel", "geometry"])]
    pid: Vec<Pid>,
    /// Check whether NEW is the same program as OLD, as fix promises
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"],
          conflicts_with_all = ["paths", "pid", "recursive", "kernel", "geometry", "require"])]
    same: Vec<PathBuf>,
    #[arg(long, help = format!("Leaf sizes to check for: {}", Geometry::names()))]
    geometry: Option<Geometry>,
    /// Check for this kernel version, such as 6.1, instead of the running one
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Version>,
    /// Search directories for programs and shared objects
    #[arg(short, long)]
    recursive: bool,
    /// Exit with 1 if less than this share of a file's text is within reach
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    require: Option<u8>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

impl CheckSummary {
    fn of(files: &[Assessment]) -> CheckSummary {
        CheckSummary {
            files: files.len(),
            text: files.iter().map(|file| file.text).sum(),
            reached: files.iter().map(|file| file.reached).sum(),
            after_fix: files.iter().map(|file| file.after_fix).sum(),
            after_merge: files.iter().map(|file| file.after_merge).sum(),
            ..CheckSummary::default()
        }
    }
}

/// Runs `hugetext check`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if !arguments.pid.is_empty() {
        return live::run(&arguments.pid, arguments.require, output);
    }
    if let [old, new] = arguments.same.as_slice() {
        return same::run(old, new, output);
    }
    let host = HostContext::read(arguments.kernel.map(Kernel::from));
    let host = host.map_err(|error| match error {
        Error::NoKernelVersion { .. } => Failure::from(error).remedy("name one with --kernel"),
        error => Failure::from(error),
    })?;
    let question = Question {
        host: &host,
        geometry: arguments.geometry,
        look_closely: !arguments.recursive,
        look_at_cache: !arguments.recursive && arguments.kernel.is_none(),
        seen: Mutex::default(),
    };
    let outcomes = check_all(arguments, &question, output);

    let count = |wanted: fn(&FileCheck) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
    let errors = count(|outcome| matches!(outcome, FileCheck::Failed));
    let unknown_architecture = count(|outcome| matches!(outcome, FileCheck::Unknown));
    let assessed = outcomes.into_iter().filter_map(|outcome| match outcome {
        FileCheck::Assessed(assessment) => Some(*assessment),
        _ => None,
    });
    let mut files: Vec<Assessment> = assessed.collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let report = CheckReport {
        kernel: host.kernel.version,
        summary: CheckSummary {
            errors,
            unknown_architecture,
            ..CheckSummary::of(&files)
        },
        text_elsewhere: match files.as_slice() {
            [program] if question.look_at_cache => {
                text_elsewhere(&program.path, program.kind, program.text)
            }
            _ => None,
        },
        files,
    };
    output.result("check", &report, |report| {
        show::files(report, arguments.recursive, output.verbose())
    })?;
    let falls_short = |file: &Assessment| {
        arguments
            .require
            .is_some_and(|percent| file.reached * 100 < file.text * u64::from(percent))
    };
    let verdict = Verdict::no_if(report.files.iter().any(falls_short));
    Ok(verdict.and(Verdict::failed_if(errors > 0)))
}

/// The options of the check of every file.
struct Question<'h> {
    host: &'h HostContext,
    geometry: Option<Geometry>,
    look_at_cache: bool,
    /// Files that the user named, as opposed to files found in a scan.
    look_closely: bool,
    /// The files found so far: hard links count as one file.
    seen: Mutex<HashSet<FileId>>,
}

impl Question<'_> {
    fn is_new(&self, program: &Program) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(program.id())
    }
}

/// The result for one file.
enum FileCheck {
    Assessed(Box<Assessment>),
    /// A program of an architecture whose page sizes are unknown, found in a scan.
    Unknown,
    /// The error has been printed.
    Failed,
}

/// Checks every file in parallel, in no order. Errors are printed at once.
fn check_all(arguments: &Arguments, question: &Question<'_>, output: &Output) -> Vec<FileCheck> {
    let bar = output.progress("files", 0);
    let outcomes = Mutex::new(Vec::new());
    let keep = |outcome| {
        outcomes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(outcome)
    };
    scan::files(&arguments.paths, arguments.recursive, |found| {
        bar.inc(1);
        match check_found(found, question) {
            Ok(None) => {}
            Ok(Some(outcome)) => keep(outcome),
            Err(failure) => {
                bar.suspend(|| output.error(&failure));
                keep(FileCheck::Failed);
            }
        }
    });
    bar.finish_and_clear();
    outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Checks a file that a scan found; `None` if it is not a program and the user did not name it.
fn check_found(found: Found, question: &Question<'_>) -> Result<Option<FileCheck>, Failure> {
    let (program, named) = match found {
        Found::Lost(failure) => return Err(failure),
        Found::Named(path) => (Program::open(&path)?, true),
        Found::Met(path) => match Program::read_scanned(&path) {
            Ok(program) => (program, false),
            Err(ReadError::Image(error)) if error.is_no_program() => return Ok(None),
            Err(error) => return Err(error.at(&path).into()),
        },
    };
    if !named && !question.is_new(&program) {
        return Ok(None);
    }
    let outcome = match program.geometry(question.geometry, question.host.geometry) {
        Some(geometry) => FileCheck::Assessed(Box::new(check_one(program, &geometry, question)?)),
        None if named => return Err(program.unknown_geometry().into()),
        None => FileCheck::Unknown,
    };
    Ok(Some(outcome))
}

fn check_one(
    program: Program,
    geometry: &Geometry,
    question: &Question<'_>,
) -> Result<Assessment, Failure> {
    let on_host = ProgramOnHost::new(program, question.host)?;
    // The folios of this machine do not concern leaves of other machines.
    let look = if question.look_at_cache && question.host.geometry == Some(*geometry) {
        Look::AtPageCache
    } else {
        Look::AtHeaders
    };
    let mut assessment = Assessment::of(&on_host, geometry, look);
    if question.look_closely {
        // A file whose sections cannot be read is still checked; only its linker stays unknown.
        let program = &on_host.program;
        assessment.linker = Linker::recognise(&program.file, &program.image).unwrap_or(None);
        assessment.self_warming = SelfWarming::of(&on_host, geometry);
    }
    Ok(assessment)
}
