//! `hugetext fix`: a file's layout made ready for huge leaves, and proved to be the same program.

mod destination;
mod show;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hugetext_elf::{
    Operation, Options, Plan, Refusal, Strategy, Verified, plan, plan_auto, rewrite,
    verify_unshared,
};
use hugetext_host::{Copier, Machine, SharedExtents};
use hugetext_leaf::{Geometry, Leaf, reach};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::program::Program;
use crate::warm::{self, Warmed};
use destination::Destination;

/// Lay a file out so that huge leaves can map its text
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An executable or a shared object
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Keep the old file under its name with this suffix added
    #[arg(long, requires = "in_place", value_name = "SUFFIX", num_args = 0..=1,
          require_equals = true, default_missing_value = ".orig")]
    backup: Option<String>,
    /// How far to go; merge makes read-only data executable and is never chosen by auto
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    strategy: Choice,
    /// Leaf sizes to lay out for: x86-64, arm64-4k, arm64-16k or arm64-64k
    #[arg(long)]
    geometry: Option<Geometry>,
    /// Extend text over a hole to the end of its last window where the addresses are free
    #[arg(long)]
    extend_tail: bool,
    /// Replace a file that has set-id bits or capabilities
    #[arg(long, requires = "in_place")]
    privileged: bool,
}

/// Where the new file goes.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// Write the new file there
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Put the new file in the place of the old one
    #[arg(long)]
    in_place: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// The strategies as a user names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// The weakest that reaches most without changing permissions
    Auto,
    /// Raise the alignment of text that is congruent already
    Align,
    /// Also insert holes so that text becomes congruent
    Shift,
    /// Also join read-only data and text in one mapping
    Merge,
}

/// What a fix did, or would do.
#[derive(Debug, Serialize)]
struct Report {
    path: PathBuf,
    geometry: Geometry,
    /// Where the new file is; absent if none was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<PathBuf>,
    /// Bytes of text.
    text: u64,
    /// Of these, within reach before; holds for this kernel and loader.
    reached_before: u64,
    #[serde(flatten)]
    outcome: Outcome,
    /// What verification found.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
    /// The page cache of the new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<Warmed>,
    /// What a user should know.
    notes: Vec<String>,
}

/// The plan, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Plan {
        /// Text bytes within reach afterwards.
        reached_after: u64,
        /// Whether there is nothing to do.
        done_already: bool,
        plan: Box<Plan>,
    },
    Refused(String),
}

/// Answers `hugetext fix`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let program = Program::open(&arguments.file)?;
    let destination = Destination::of(&program, arguments)?;
    let machine = Machine::this();
    let geometry = program
        .geometry(arguments.geometry, machine.geometry)
        .ok_or_else(|| program.unknown_geometry())?;
    let mut report = Report {
        path: arguments.file.clone(),
        geometry,
        output: None,
        text: program.image.text_len(),
        reached_before: 0,
        outcome: Outcome::Refused(String::new()),
        verified: None,
        cache: None,
        notes: destination.notes(),
    };
    let decided = decide(
        &program,
        arguments.strategy,
        &geometry,
        arguments.extend_tail,
    );
    let plan = match decided {
        Ok(plan) => plan,
        Err(refusal) if refusal.forbids() => return Err(Failure::at(&program.path, refusal)),
        Err(refusal) => {
            report.outcome = Outcome::Refused(refusal.to_string());
            output.result("fix", &report, show::text)?;
            return Ok(Verdict::No);
        }
    };
    report.reached_before = reached_now(&program, &machine, &geometry, plan.leaf)?;
    let done_already = plan.is_noop(&program.image);
    if destination.is_written(done_already) {
        let (path, verified) = write(&program, &plan, &destination)?;
        report.cache = measure(&path, &machine, &geometry);
        report.verified = Some(verified);
        report.output = Some(path);
    }
    report.outcome = Outcome::Plan {
        reached_after: plan.reached(&program.image, geometry.page),
        done_already,
        plan: Box::new(plan),
    };
    output.result("fix", &report, show::text)?;
    Ok(Verdict::Done)
}

/// The plan for a program, or why there is none.
fn decide(
    program: &Program,
    choice: Choice,
    geometry: &Geometry,
    extend_tail: bool,
) -> Result<Plan, Refusal> {
    let image = &program.image;
    let strategy = match choice {
        Choice::Align => Strategy::Align,
        Choice::Auto | Choice::Shift => Strategy::Shift,
        Choice::Merge => Strategy::Merge,
    };
    let options = Options {
        extend_tail,
        ..Options::for_image(image, geometry, strategy)
    };
    match choice {
        Choice::Auto => plan_auto(image, &options),
        _ => plan(image, strategy, &options),
    }
}

/// Text within reach as the file is.
fn reached_now(
    program: &Program,
    machine: &Machine,
    geometry: &Geometry,
    leaf: Leaf,
) -> Result<u64, Failure> {
    let mounts = hugetext_host::Mounts::read()
        .map_err(|error| Failure::io(Path::new("/proc/self/mountinfo"), &error))?;
    let Some(kernel) = machine.kernel else {
        return Ok(0);
    };
    let loader = program.loader(kernel, program.filesystem(&mounts)?);
    let segments = &program.image.segments;
    let bias = loader.bias(program.image.kind, segments, geometry);
    Ok(reach(segments, geometry.page, leaf, bias).reached)
}

/// Writes the new file, proves it, and only then makes it visible. Returns its path.
fn write(
    program: &Program,
    plan: &Plan,
    destination: &Destination,
) -> Result<(PathBuf, Verified), Failure> {
    let path = destination.path(program)?;
    let replacement = destination::create(&path)?;
    let verified = carry_out(program, plan, replacement.file())?;
    destination.put_into_place(program, replacement, &path)?;
    Ok((path, verified))
}

/// Fills the empty file `new` according to a plan for `program`, and verifies it.
pub(crate) fn carry_out(program: &Program, plan: &Plan, new: &File) -> Result<Verified, Failure> {
    let at = |problem: &dyn std::fmt::Display| Failure::at(&program.path, problem);
    let operations = rewrite(&program.file, &program.image, plan).map_err(|error| at(&error))?;
    perform(&operations, &program.file, new).map_err(|error| Failure::io(&program.path, &error))?;
    let extents = SharedExtents::of(&program.file, new)
        .map_err(|error| Failure::io(&program.path, &error))?;
    let shared = |old, new| extents.shared(old, new);
    verify_unshared(&program.file, new, shared).map_err(|difference| {
        at(&format_args!(
            "the result would not be the same program: {difference}"
        ))
        .remedy("nothing was changed")
    })
}

fn perform(operations: &[Operation], old: &File, new: &File) -> std::io::Result<()> {
    let written = operations.iter().filter_map(|operation| match operation {
        Operation::Write { at, bytes } => Some(*at..at.saturating_add(bytes.len() as u64)),
        _ => None,
    });
    let mut copier = Copier::new(old, new)?.apart_from(written);
    for operation in operations {
        match operation {
            Operation::SetLen { len } => new.set_len(*len)?,
            Operation::Copy { from, to } => copier.copy(from.start..from.end, *to)?,
            Operation::Write { at, bytes } => new.write_all_at(bytes, *at)?,
        }
    }
    Ok(())
}

/// What the page cache holds of the new file, if it was laid out for this machine.
fn measure(path: &Path, machine: &Machine, geometry: &Geometry) -> Option<Warmed> {
    if machine.geometry.as_ref() != Some(geometry) {
        return None;
    }
    let look = warm::Climb {
        check: true,
        replace: false,
    };
    let ground = warm::Ground::this().ok()?;
    let program = Program::open(path).ok()?;
    warm::warm(&program, &ground, look).ok()
}
