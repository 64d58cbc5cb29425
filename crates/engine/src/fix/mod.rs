//! Decides how a program is laid out for huge leaves, and carries that out.

mod destination;
mod rewrite;

use hugetext_elf::{
    DividedSections, Options, Plan, Refusal, SelfWarmingError, Strategy, plan, plan_auto,
    self_warming,
};
use hugetext_leaf::{Asker, Cause, ColdStart, Geometry, Leaf, Segment, large_folios, reach};

use crate::error::Error;
use crate::on_host::ProgramOnHost;
use crate::self_warming::{after, cut_for_nothing};
use crate::voucher::Voucher;

pub use destination::{FixDestination, FixTarget, Privileges};
pub use rewrite::{WrittenFix, compare_files, rewrite_into, write_fix};

/// The strategies that are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyChoice {
    /// The weakest strategy that reaches most without changing permissions.
    Auto,
    /// This strategy and the weaker ones.
    AtMost(Strategy),
}

impl StrategyChoice {
    /// The strongest strategy that is permitted.
    pub fn strongest(self) -> Strategy {
        match self {
            StrategyChoice::Auto => Strategy::Shift,
            StrategyChoice::AtMost(strategy) => strategy,
        }
    }
}

/// What to lay a program out for.
#[derive(Debug, Clone, Copy)]
pub struct FixRequest {
    /// The strategies that are permitted.
    pub strategy: StrategyChoice,
    /// The leaf sizes.
    pub geometry: Geometry,
    /// Extend text over a hole to the end of its last window where the addresses are free.
    pub extend_tail: bool,
    /// Cut text at window boundaries, so that loaders ask for huge folios themselves.
    pub self_warming: bool,
}

/// What a fix would do.
#[derive(Debug)]
pub struct FixDecision {
    /// Bytes of text.
    pub text: u64,
    /// The part of it within reach before; it holds for this kernel and loader.
    pub reached_before: u64,
    /// The leaf that the layout is for.
    pub leaf: Leaf,
    /// The plan, or the reason that no plan exists.
    pub proposal: Result<FixPlan, Refusal>,
}

/// A plan, and what it would give.
#[derive(Debug)]
pub struct FixPlan {
    /// The plan.
    pub plan: Plan,
    /// Text bytes within reach afterwards.
    pub reached_after: u64,
    /// Whether the layout needs no change.
    pub done_already: bool,
    /// What glibc.elf.thp gives on a cold start afterwards.
    pub cold_start: ColdStart,
}

/// What the user should know about a fix.
#[derive(Debug)]
pub enum FixNote {
    /// The old content stays under this number of other hard links.
    OtherLinks(u64),
    /// The copy goes without the set-id bits or capabilities of the file.
    PrivilegesLeftOut,
    /// No kernel that runs the program has this geometry.
    ImpossibleGeometry(Geometry),
    /// The filesystem cannot hold the folios that the layout is for.
    Obstacle(Cause),
    /// Something keeps a checksum of the file.
    Vouched(Voucher),
}

/// Decides how to lay out a program; an error where no strategy may touch it. The new file is
/// assumed to be mapped at the same kind of address as the old one.
pub fn decide_fix(on_host: &ProgramOnHost<'_>, request: &FixRequest) -> Result<FixDecision, Error> {
    let image = &on_host.program.image;
    let geometry = &request.geometry;
    let options = Options {
        extend_tail: request.extend_tail,
        ..Options::for_image(image, geometry, request.strategy.strongest())
    };
    let bias = |segments: &[Segment]| on_host.bias_with(segments, geometry);
    let before = bias(&image.segments);
    let planned = match request.strategy {
        StrategyChoice::Auto => plan_auto(image, &options),
        StrategyChoice::AtMost(strategy) => plan(image, strategy, &options),
    };
    let planned = match planned {
        Ok(plan) => warmed(on_host, request, plan, &options)?,
        Err(refusal) => Err(refusal),
    };
    let proposal = match planned {
        Err(source) if source.forbids() => {
            return Err(Error::Unfixable {
                path: on_host.program.path.clone(),
                source,
            });
        }
        planned => planned.map(|plan| FixPlan {
            reached_after: plan.reached_at(image, geometry.page, bias(&plan.segments)),
            done_already: plan.is_noop(image),
            cold_start: after(on_host, geometry, &plan, Asker::GlibcTunable),
            plan,
        }),
    };
    Ok(FixDecision {
        text: image.text_len(),
        reached_before: reach(&image.segments, geometry.page, options.leaf, before).reached,
        leaf: options.leaf,
        proposal,
    })
}

/// The plan with its text cut, where that is asked for, or costs nothing and the choice is free.
fn warmed(
    on_host: &ProgramOnHost<'_>,
    request: &FixRequest,
    plan: Plan,
    options: &Options,
) -> Result<Result<Plan, Refusal>, Error> {
    let program = &on_host.program;
    let divided = DividedSections::Cut;
    if !request.self_warming {
        return Ok(Ok(match request.strategy {
            StrategyChoice::Auto => cut_for_nothing(program, plan, options, divided),
            StrategyChoice::AtMost(_) => plan,
        }));
    }
    match self_warming(&program.file, &program.image, plan, options, divided) {
        // To join data takes a shift.
        Ok(warming) if warming.strategy > request.strategy.strongest() => Ok(Err(Refusal::NoRoom)),
        Ok(warming) => Ok(Ok(warming)),
        Err(SelfWarmingError::Refusal(refusal)) => Ok(Err(refusal)),
        Err(SelfWarmingError::Image(source)) => Err(Error::Image {
            path: program.path.clone(),
            source,
        }),
    }
}

/// What the user should know about a fix that goes to `destination`.
pub fn fix_notes(
    on_host: &ProgramOnHost<'_>,
    request: &FixRequest,
    decision: &FixDecision,
    destination: &FixDestination,
) -> Result<Vec<FixNote>, Error> {
    let (program, geometry) = (&on_host.program, &request.geometry);
    let mut notes: Vec<FixNote> = destination.note().into_iter().collect();
    if !program.image.machine.may_have(geometry) {
        notes.push(FixNote::ImpossibleGeometry(*geometry));
    }
    if !matches!(destination, FixDestination::Other { .. }) {
        let obstacle = obstacle(on_host, geometry, decision.leaf);
        notes.extend(obstacle.map(FixNote::Obstacle));
    }
    if decision
        .proposal
        .as_ref()
        .is_ok_and(|fix| !fix.done_already)
    {
        let voucher = destination.voucher(program)?;
        notes.extend(voucher.map(FixNote::Vouched));
    }
    Ok(notes)
}

/// Why its filesystem holds no folios for the leaf that a program is laid out for.
fn obstacle(program: &ProgramOnHost<'_>, geometry: &Geometry, leaf: Leaf) -> Option<Cause> {
    let (kind, leaf) = geometry.leaves().find(|(_, own)| *own == leaf)?;
    large_folios(program.pages, program.loader.kernel, kind, leaf).doubt()
}
