//! `hugetext fix`: rewrites a file's layout for huge leaves, and verifies that it is the same
//! program.

mod destination;
mod show;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hugetext_elf::{
    Difference, Operation, Options, Plan, Strategy, Stretch, Verified, plan, plan_auto, rewrite,
    verify_unshared,
};
use hugetext_host::{Copier, Mounts, Paging, SharedExtents};
use hugetext_leaf::{Cause, Filesystem, Geometry, Kernel, Leaf, large_folio_obstacle, reach};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::output::Output;
use crate::path::lossy;
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
    #[arg(long, conflicts_with_all = ["output", "dry_run"], value_name = "SUFFIX", num_args = 0..=1,
          require_equals = true, default_missing_value = ".orig")]
    backup: Option<String>,
    /// The strongest change allowed; merge makes read-only data executable, and auto never chooses
    /// it
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    strategy: Choice,
    /// Leaf sizes to lay out for: x86-64, arm64-4k, arm64-16k or arm64-64k
    #[arg(long)]
    geometry: Option<Geometry>,
    /// Extend text over a hole to the end of its last window where the addresses are free
    #[arg(long)]
    extend_tail: bool,
    /// Let the new file have the set-id bits and capabilities of the old one. Without this option,
    /// such a file is not replaced, and a copy (-o) goes without them
    #[arg(long, conflicts_with = "dry_run")]
    privileged: bool,
    /// Also fix a file whose checksum is kept elsewhere: in a .hmac, .chk or .sig file next to it,
    /// in OpenSSL's FIPS configuration, in the program itself, or, with --in-place, in a package
    #[arg(long)]
    vouched: bool,
}

/// The destination of the new file.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// Write the new file to this path
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace the old file with the new one
    #[arg(long)]
    in_place: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// The strategies by the names of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// The weakest strategy that reaches most without changing permissions
    Auto,
    /// Raise the alignment of text that is already congruent
    Align,
    /// Also insert holes so that text becomes congruent
    Shift,
    /// Also join read-only data and text in one mapping
    Merge,
}

impl Choice {
    /// The strongest strategy that is permitted.
    fn at_most(self) -> Strategy {
        match self {
            Choice::Align => Strategy::Align,
            Choice::Auto | Choice::Shift => Strategy::Shift,
            Choice::Merge => Strategy::Merge,
        }
    }
}

/// What a fix did, or would do.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(serialize_with = "lossy::path")]
    path: PathBuf,
    geometry: Geometry,
    /// Bytes of text.
    text: u64,
    /// The part of it within reach before; it holds for this kernel and loader.
    reached_before: u64,
    #[serde(flatten)]
    outcome: Outcome,
    /// Absent if no file was written.
    #[serde(flatten)]
    written: Option<Written>,
    /// Notes for the user.
    notes: Vec<String>,
}

/// The plan, or the reason that no plan exists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Plan {
        /// Text bytes within reach afterwards.
        reached_after: u64,
        /// Whether the layout needs no change.
        done_already: bool,
        plan: Box<Plan>,
    },
    Refused(String),
}

/// The new file.
#[derive(Debug, Serialize)]
struct Written {
    /// Its path.
    #[serde(serialize_with = "lossy::path")]
    output: PathBuf,
    /// The result of verification.
    verified: Verified,
    /// The state of its page cache, if it was laid out for this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<Warmed>,
}

/// Runs `hugetext fix`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let program = Program::open(&arguments.file)?;
    let image = &program.image;
    let destination = Destination::of(&program, arguments)?;
    let paging = Paging::this();
    let geometry = program
        .geometry(arguments.geometry, paging.geometry)
        .ok_or_else(|| program.unknown_geometry())?;
    let options = Options {
        extend_tail: arguments.extend_tail,
        ..Options::for_image(image, &geometry, arguments.strategy.at_most())
    };
    let kernel = paging
        .kernel
        .ok_or_else(|| Failure::no_version(&paging.release))?;
    let mounts = Mounts::read().map_err(|error| Failure::mounts(&error))?;
    // The new file is assumed to be mapped at the same kind of address as the old one.
    let loader = program.loader(kernel, program.filesystem(&mounts)?);
    let bias = |segments| loader.bias(image.kind, segments, &geometry);
    let before = bias(&image.segments);
    let reached_before = reach(&image.segments, geometry.page, options.leaf, before).reached;
    let mut notes = destination.notes();
    if !image.machine.may_have(&geometry) {
        notes.push(format!(
            "laid out for {geometry}, but no kernel that runs it has this geometry"
        ));
    }
    if !matches!(destination, Destination::Other { .. }) {
        let pages = program.page_cache(&mounts)?;
        notes.extend(obstacle(pages, kernel, &geometry, options.leaf).map(|it| it.to_string()));
    }
    let decided = match arguments.strategy {
        Choice::Auto => plan_auto(image, &options),
        strategy => plan(image, strategy.at_most(), &options),
    };
    let (verdict, outcome, written) = match decided {
        Err(refusal) if refusal.forbids() => return Err(Failure::at(&program.path, refusal)),
        Err(refusal) => (Verdict::No, Outcome::Refused(refusal.to_string()), None),
        Ok(plan) => {
            let done_already = plan.is_noop(image);
            if !done_already {
                notes.extend(destination.voucher(&program, arguments)?);
            }
            let written = match destination.is_written(done_already) {
                true => Some(write(&program, &plan, &destination, &paging, &geometry)?),
                false => None,
            };
            let outcome = Outcome::Plan {
                reached_after: plan.reached_at(image, geometry.page, bias(&plan.segments)),
                done_already,
                plan: Box::new(plan),
            };
            (Verdict::Done, outcome, written)
        }
    };
    let report = Report {
        path: arguments.file.clone(),
        geometry,
        text: image.text_len(),
        reached_before,
        outcome,
        written,
        notes,
    };
    output.result("fix", &report, show::text)?;
    Ok(verdict)
}

/// Why the filesystem `pages` holds no folios for the leaf that a file on it is laid out for.
fn obstacle(pages: Filesystem, kernel: Kernel, geometry: &Geometry, leaf: Leaf) -> Option<Cause> {
    let (kind, leaf) = geometry.leaves().find(|(_, own)| *own == leaf)?;
    large_folio_obstacle(pages, kernel, kind, leaf)
}

/// Writes the new file, verifies it, and only then makes it visible.
fn write(
    program: &Program,
    plan: &Plan,
    destination: &Destination,
    paging: &Paging,
    geometry: &Geometry,
) -> Result<Written, Failure> {
    let replacement = destination.create(program)?;
    let output = replacement.destination().to_owned();
    let verified = carry_out(program, plan, replacement.file(), &output)?;
    destination.put_into_place(program, replacement)?;
    Ok(Written {
        cache: measure(&output, paging, geometry),
        output,
        verified,
    })
}

/// Fills the empty file `new` according to a plan for `program`, and verifies it. The file will lie
/// at `to`, or in it.
pub(crate) fn carry_out(
    program: &Program,
    plan: &Plan,
    new: &File,
    to: &Path,
) -> Result<Verified, Failure> {
    let path = &program.path;
    let operations =
        rewrite(&program.file, &program.image, plan).map_err(|error| Failure::at(path, error))?;
    perform(&operations, &program.file, new).map_err(|error| Failure::rewrite(path, to, &error))?;
    let extents = SharedExtents::of(&program.file, new).map_err(|e| Failure::io(path, &e))?;
    let verified = verify_unshared(&program.file, new, known_by(&extents));
    verified.map_err(|difference| match difference {
        Difference::Read(error) => Failure::io(path, &error),
        difference => {
            let problem = format!("the result would not be the same program: {difference}");
            Failure::at(path, problem).remedy("nothing was changed")
        }
    })
}

/// What the blocks of two files tell about their equality.
pub(crate) fn known_by(extents: &SharedExtents) -> impl Fn(u64, u64) -> Stretch {
    |old, new| match extents.shared(old, new) {
        (true, len) => Stretch::Shared(len),
        (false, len) => Stretch::Unknown(len),
    }
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

/// The page cache of the file at `path`, if the file was laid out for this machine.
fn measure(path: &Path, paging: &Paging, geometry: &Geometry) -> Option<Warmed> {
    if paging.geometry.as_ref() != Some(geometry) {
        return None;
    }
    let ground = warm::Ground::of(paging.clone()).ok()?;
    let program = Program::open(path).ok()?;
    warm::warm(&program, &ground, warm::Climb::look()).ok()
}
