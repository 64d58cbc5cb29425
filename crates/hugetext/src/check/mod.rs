//! `hugetext check`: where text lies, which of it leaves can map, and why they cannot map the rest.

mod assess;
mod live;
mod same;
mod show;

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use hugetext_elf::Linker;
use hugetext_host::{Mounts, Paging};
use hugetext_leaf::{Geometry, Kernel, Version};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::program::{NoProgram, Program};
use crate::scan::{self, Found};
pub(crate) use assess::Assessment;
pub(crate) use live::{LiveText, live_texts};

/// Show which text can be mapped by huge leaves, now and after a fix
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Executables and shared objects
    #[arg(required_unless_present_any = ["pid", "same"])]
    paths: Vec<PathBuf>,
    /// Check this running process instead of files
    #[arg(long, conflicts_with_all = ["paths", "recursive", "kernel", "geometry"])]
    pid: Vec<i32>,
    /// Check whether NEW is the same program as OLD, as fix promises
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"],
          conflicts_with_all = ["paths", "pid", "recursive", "kernel", "geometry", "require"])]
    same: Vec<PathBuf>,
    /// Leaf sizes to check for: x86-64, arm64-4k, arm64-16k or arm64-64k
    #[arg(long)]
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
}

/// The result of a check of files.
#[derive(Debug, Serialize)]
struct Report {
    kernel: Version,
    summary: Summary,
    files: Vec<Assessment>,
}

/// The sum over files.
#[derive(Debug, Default, Serialize)]
struct Summary {
    /// Programs and shared objects read.
    files: usize,
    /// Files that could not be read.
    errors: usize,
    /// Programs of architectures whose page sizes are unknown.
    unknown_architecture: usize,
    /// Bytes of text.
    text: u64,
    /// The part of it within reach of the largest worthwhile leaf, before a fix.
    reached: u64,
    /// The part of it within reach after `fix`.
    after_fix: u64,
}

impl Summary {
    fn of(files: &[Assessment]) -> Summary {
        Summary {
            files: files.len(),
            text: files.iter().map(|file| file.text).sum(),
            reached: files.iter().map(Assessment::reached).sum(),
            after_fix: files.iter().map(Assessment::after_fix).sum(),
            ..Summary::default()
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
    let machine = Paging::this();
    let kernel = arguments.kernel.map(Kernel::from).or(machine.kernel);
    let kernel = kernel
        .ok_or_else(|| Failure::no_version(&machine.release).remedy("name one with --kernel"))?;
    let question = Question {
        kernel,
        geometry: arguments.geometry,
        own_geometry: machine.geometry,
        look_closely: !arguments.recursive,
        look_at_cache: !arguments.recursive && arguments.kernel.is_none(),
        seen: Mutex::default(),
        mounts: Mounts::read().map_err(|error| Failure::mounts(&error))?,
    };
    let outcomes = check_all(arguments, &question, output);

    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
    let errors = count(|outcome| matches!(outcome, Outcome::Failed));
    let unknown_architecture = count(|outcome| matches!(outcome, Outcome::Unknown));
    let assessed = outcomes.into_iter().filter_map(|outcome| match outcome {
        Outcome::Assessed(assessment) => Some(*assessment),
        _ => None,
    });
    let mut files: Vec<Assessment> = assessed.collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let report = Report {
        kernel: kernel.version,
        summary: Summary {
            errors,
            unknown_architecture,
            ..Summary::of(&files)
        },
        files,
    };
    output.result("check", &report, |report| {
        show::files(report, arguments.recursive, output.verbose())
    })?;
    let falls_short = |file: &Assessment| {
        arguments
            .require
            .is_some_and(|percent| file.reached() * 100 < file.text * u64::from(percent))
    };
    let verdict = if report.files.iter().any(falls_short) {
        Verdict::No
    } else {
        Verdict::Done
    };
    Ok(if errors > 0 {
        verdict.and(Verdict::Failed)
    } else {
        verdict
    })
}

/// The options of the check of every file.
struct Question {
    kernel: Kernel,
    geometry: Option<Geometry>,
    own_geometry: Option<Geometry>,
    look_at_cache: bool,
    /// Files that the user named, as opposed to files found in a scan.
    look_closely: bool,
    mounts: Mounts,
    /// Device and inode of the files found so far: hard links count as one file.
    seen: Mutex<HashSet<(u64, u64)>>,
}

impl Question {
    fn is_new(&self, program: &Program) -> bool {
        let Ok(metadata) = program.file.metadata() else {
            return true;
        };
        let inode = (metadata.dev(), metadata.ino());
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(inode)
    }
}

/// The result for one file.
enum Outcome {
    Assessed(Box<Assessment>),
    /// A program of an architecture whose page sizes are unknown, found in a scan.
    Unknown,
    /// The error has been printed.
    Failed,
}

/// Checks every file in parallel, in no order. Errors are printed at once.
fn check_all(arguments: &Arguments, question: &Question, output: &Output) -> Vec<Outcome> {
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
                keep(Outcome::Failed);
            }
        }
    });
    bar.finish_and_clear();
    outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Checks a file that a scan found; `None` if it is not a program and the user did not name it.
fn check_found(found: Found, question: &Question) -> Result<Option<Outcome>, Failure> {
    let (program, named) = match found {
        Found::Lost(failure) => return Err(failure),
        Found::Named(path) => (Program::open(&path)?, true),
        Found::Met(path) => match Program::read_met(&path) {
            Ok(program) => (program, false),
            Err(NoProgram::Image(error)) if error.is_no_program() => return Ok(None),
            Err(error) => return Err(error.failure(&path)),
        },
    };
    if !named && !question.is_new(&program) {
        return Ok(None);
    }
    let outcome = match program.geometry(question.geometry, question.own_geometry) {
        Some(geometry) => Outcome::Assessed(Box::new(check_one(&program, &geometry, question)?)),
        None if named => return Err(program.unknown_geometry()),
        None => Outcome::Unknown,
    };
    Ok(Some(outcome))
}

fn check_one(
    program: &Program,
    geometry: &Geometry,
    question: &Question,
) -> Result<Assessment, Failure> {
    let filesystem = program.filesystem(&question.mounts)?;
    let loader = program.loader(question.kernel, filesystem);
    let page_cache = program.page_cache(&question.mounts)?;
    let mut assessment = Assessment::of(program, geometry, &loader, page_cache);
    if question.look_closely {
        // A file whose sections cannot be read is still checked; only its linker stays unknown.
        assessment.linker = Linker::recognise(&program.file, &program.image).unwrap_or(None);
    }
    // The folios of this machine do not concern leaves of other machines.
    if question.look_at_cache && question.own_geometry == Some(*geometry) {
        assessment.look_at_cache(program);
    }
    Ok(assessment)
}
