//! `hugetext fix`: rewrites a file's layout for huge leaves, and verifies that it is the same
//! program.

mod show;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hugetext_elf::{MovedText, Strategy};
use hugetext_engine::{
    FixDecision, FixRequest, FixTarget, HostContext, PlannedFix, Program, ProgramOnHost,
    StrategyChoice, WrittenFix, leaf_use_here, plan_fix, write_fix,
};
use hugetext_leaf::Geometry;
use hugetext_leaf::verdict::Deed;

use crate::command::file_or_command;
use crate::documents::fix::{FixOutcome, FixReport, WrittenReport};
use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An executable or a shared object: a path, a command on PATH, or a library by name
    #[arg(value_parser = file_or_command())]
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
    #[arg(long, help = format!("Leaf sizes to lay out for: {}", Geometry::names()))]
    geometry: Option<Geometry>,
    /// Extend text over a hole to the end of its last window where the addresses are free
    #[arg(long)]
    extend_tail: bool,
    /// Give the windows of text a PT_LOAD of their own, so that a loader that asks for huge pages
    /// (glibc.elf.thp) gets them on a cold start. gVisor does not start such programs, and GNU strip makes it
    /// ineffective. Where the device reads 2 MiB or more ahead, text is cut in two instead, and some tools
    /// find less (lab/results/self-warming.md)
    #[arg(long)]
    self_warming: bool,
    /// Let the new file have the set-id bits and capabilities of the old one. Without this option,
    /// such a file is not replaced, and a copy (-o) goes without them
    #[arg(long, conflicts_with = "dry_run")]
    privileged: bool,
    /// Also fix a file whose checksum is kept elsewhere: in a .hmac, .chk or .sig file next to it,
    /// in OpenSSL's FIPS configuration, in the program itself, or, with --in-place, in a package
    #[arg(long)]
    vouched: bool,
}

// The destination of the new file. This is no documentation comment: clap would print it as the headline of
// `fix`.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Target {
    /// Write the new file to this path
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    output: Option<PathBuf>,
    /// Replace the old file with the new one
    #[arg(long)]
    in_place: bool,
    /// Change nothing: show what --in-place or -o would do; without either, what a copy would get
    #[arg(long)]
    dry_run: bool,
}

/// The strategies by the names of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// The least change that gives most text on huge pages, without new permissions
    Auto,
    /// Raise the alignment of text that is already congruent
    Align,
    /// Also insert holes so that text becomes congruent
    Shift,
    /// Also join read-only data and text in one mapping
    Merge,
}

impl From<Choice> for StrategyChoice {
    fn from(choice: Choice) -> StrategyChoice {
        match choice {
            Choice::Auto => StrategyChoice::Auto,
            Choice::Align => StrategyChoice::AtMost(Strategy::Align),
            Choice::Shift => StrategyChoice::AtMost(Strategy::Shift),
            Choice::Merge => StrategyChoice::AtMost(Strategy::Merge),
        }
    }
}

impl Arguments {
    /// Profiles and core dumps of the old file may exist where the new one takes its place.
    fn moved(&self) -> MovedText {
        match &self.target.output {
            Some(_) => MovedText::Nearest,
            None => MovedText::BehindOld,
        }
    }

    fn target(&self) -> FixTarget {
        let (privileged, vouched) = (self.privileged, self.vouched);
        match &self.target.output {
            None if !self.target.in_place => FixTarget::DryRun { vouched },
            Some(path) => FixTarget::Copy {
                path: path.clone(),
                privileged,
                vouched,
            },
            None => FixTarget::InPlace {
                backup: self.backup.clone(),
                privileged,
                vouched,
            },
        }
    }
}

/// Runs `hugetext fix`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let program = Program::open(&arguments.file)?;
    let host = HostContext::read(None)?;
    let geometry = program.geometry(arguments.geometry, host.geometry);
    let request = FixRequest {
        strategy: arguments.strategy.into(),
        geometry: geometry.ok_or_else(|| program.unknown_geometry())?,
        extend_tail: arguments.extend_tail,
        moved: arguments.moved(),
        self_warming: arguments.self_warming,
    };
    let on_host = ProgramOnHost::new(program, &host)?;
    let PlannedFix {
        decision,
        destination,
        notes,
    } = plan_fix(&on_host, &request, &arguments.target())?;
    let written = match &decision.proposal {
        // What is not written asks nothing about the machine, which may take a trial.
        Ok(fix) if !arguments.target.dry_run && destination.is_written(fix.done_already) => {
            let leaves = leaf_use_here(Deed::Write);
            write_fix(&on_host, fix, &destination, &request.geometry, leaves)?
        }
        _ => None,
    };
    let verdict = Verdict::no_if(decision.proposal.is_err());
    let report = FixReport {
        path: arguments.file.clone(),
        geometry: request.geometry,
        text: decision.text,
        reached_before: decision.reached_before,
        outcome: FixOutcome::of(decision),
        written: written.map(WrittenReport::of),
        notes: notes.iter().map(show::note).collect(),
    };
    output.result("fix", &report, show::text)?;
    Ok(verdict)
}

impl FixOutcome {
    fn of(decision: FixDecision) -> FixOutcome {
        match decision.proposal {
            Ok(fix) => FixOutcome::Plan {
                reached_after: fix.reached_after,
                done_already: fix.done_already,
                cold_start: fix.cold_start,
                long_readahead: fix.long_readahead,
                plan: Box::new(fix.plan),
            },
            Err(refusal) => FixOutcome::Refused(refusal.to_string()),
        }
    }
}

impl WrittenReport {
    fn of(written: WrittenFix) -> WrittenReport {
        WrittenReport {
            output: written.path,
            verified: written.verified,
            cache: written.cache,
        }
    }
}
