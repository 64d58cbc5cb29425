//! `hugetext promote`: moves a running process's text onto huge pages, and back.

mod audit;
mod report;
mod work;

use std::fs;
use std::path::Path;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use hugetext_host::{Copies, Paging, Refusal, SwapError, pids, process_name};
use hugetext_leaf::{Backend, Kernel, Leaf};

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use report::{Process, Refused, Report};
use work::NotDone;

/// Put the text of running processes on huge pages, without a restart
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct Arguments {
    /// Process ids
    #[arg(group = "which")]
    pids: Vec<i32>,
    /// Every process with this process name or program file name
    #[arg(long, group = "which", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Every process this user may trace
    #[arg(long, group = "which")]
    all: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// The method: collapse the file's own pages, map a copy over them (remap), or collapse where
    /// that works and remap elsewhere (auto)
    #[arg(long, value_enum, default_value_t = By::Auto)]
    backend: By,
    /// Map the original files again
    #[arg(long, conflicts_with = "backend")]
    revert: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Auto,
    Collapse,
    Remap,
}

impl From<By> for Backend {
    fn from(by: By) -> Backend {
        match by {
            By::Auto => Backend::Both,
            By::Collapse => Backend::CollapseOnly,
            By::Remap => Backend::RemapOnly,
        }
    }
}

/// The change to make in every process.
#[derive(Debug, Clone, Copy)]
struct Job {
    kernel: Kernel,
    leaf: Leaf,
    backend: Backend,
    dry_run: bool,
    revert: bool,
}

/// Runs `hugetext promote`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let paging = Paging::this();
    let job = Job {
        kernel: paging
            .kernel
            .ok_or_else(|| Failure::no_version(&paging.release))?,
        leaf: paging
            .pmd
            .ok_or_else(|| Failure::no_huge_pages(&paging.release))?,
        backend: arguments.backend.into(),
        dry_run: arguments.dry_run,
        revert: arguments.revert,
    };
    let wanted = wanted(arguments)?;
    let by_id = !arguments.pids.is_empty();
    let bar = output.progress("processes", wanted.len() as u64);
    let (mut copies, mut report, mut verdict) =
        (Copies::default(), Report::new(job), Verdict::Done);
    for pid in wanted {
        bar.inc(1);
        match work::process(pid, job, &mut copies) {
            Ok(process) => {
                verdict = verdict.and(judge(&process, job, by_id));
                report.processes.push(process);
            }
            Err(error) => {
                let refused = Refused::new(pid, &error);
                match weigh(&error) {
                    // The user did not name these processes.
                    Weight::Nothing if !by_id => continue,
                    Weight::Answer => verdict = verdict.and(Verdict::No),
                    Weight::Nothing | Weight::Error => {
                        output.error(&Failure::new(format_args!("process {pid}"), &error));
                        verdict = Verdict::Failed;
                    }
                }
                report.refused.push(refused);
            }
        }
    }
    bar.finish_and_clear();
    report.audit = audit::log(&report);
    output.result("promote", &report, |report| report.show(output.verbose()))?;
    Ok(verdict)
}

/// A process that the user named and that has no text to promote makes the answer no. With
/// --revert, a copy that stays mapped makes it no.
fn judge(process: &Process, job: Job, by_id: bool) -> Verdict {
    let no = match job.revert {
        true => !process.left.is_empty(),
        false => by_id && !process.is_on_huge_pages(),
    };
    match no {
        true => Verdict::No,
        false => Verdict::Done,
    }
}

enum Weight {
    /// A process that `--all` and `--name` skip.
    Nothing,
    /// The answer is no, for this reason.
    Answer,
    /// An error.
    Error,
}

fn weigh(error: &NotDone) -> Weight {
    let NotDone::Swap(error) = error else {
        return Weight::Answer;
    };
    match error {
        SwapError::Refusal(refusal) => match refusal {
            Refusal::Gone | Refusal::Own | Refusal::KernelThread | Refusal::Forbidden { .. } => {
                Weight::Nothing
            }
            Refusal::Io(_) => Weight::Error,
            _ => Weight::Answer,
        },
        SwapError::Changed { .. } | SwapError::TooManyFiles => Weight::Answer,
        _ => Weight::Error,
    }
}

fn wanted(arguments: &Arguments) -> Result<Vec<i32>, Failure> {
    if !arguments.pids.is_empty() {
        return Ok(arguments.pids.clone());
    }
    let own = std::process::id();
    let mut everyone = pids().map_err(|error| Failure::new("/proc", error))?;
    everyone.retain(|pid| u32::try_from(*pid) != Ok(own));
    let Some(name) = &arguments.name else {
        return Ok(everyone);
    };
    everyone.retain(|pid| is_named(*pid, name));
    if everyone.is_empty() {
        let failure = Failure::new(format_args!("--name {name}"), "no such process is running");
        return Err(failure.remedy("`hugetext stat --all` lists the names"));
    }
    Ok(everyone)
}

fn is_named(pid: i32, name: &str) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let file = exe.file_name().unwrap_or_default().to_string_lossy();
    let file = file.strip_suffix(" (deleted)").unwrap_or(&file);
    process_name(pid) == name || file == name || exe == Path::new(name)
}
