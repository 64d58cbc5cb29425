//! Decides how a program is laid out for huge leaves, and carries that out.

mod destination;
mod plan;
mod rewrite;

use hugetext_elf::{
    MovedText, Options, Plan, PlanError, Refusal, Strategy, plan, plan_auto, self_warming,
};
use hugetext_leaf::{Asker, Cause, Geometry, Leaf, Segment, large_folios, reach};

use crate::cold_start::{after, long_readahead, spoiling_readahead};
use crate::error::Error;
use crate::on_host::ProgramOnHost;

use destination::may_be_copied;
pub use destination::{FixDestination, FixTarget, Privileges};
pub use plan::{FixDecision, FixNote, FixPlan};
pub use rewrite::{WrittenFix, compare_files, rewrite_into, write_fix};

/// The strategies that are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyChoice {
    /// The least change that gives most text on huge pages, without new permissions.
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

impl FixRequest {
    /// By a strategy alone.
    pub fn plain(strategy: StrategyChoice, geometry: Geometry) -> FixRequest {
        FixRequest {
            strategy,
            geometry,
            extend_tail: false,
            moved: MovedText::BehindOld,
            self_warming: false,
        }
    }
}

/// All that is known of a fix before anything is written: what `fix` carries out, its dry run shows, and `check`
/// promises.
#[derive(Debug)]
pub struct PlannedFix {
    /// What it would do.
    pub decision: FixDecision,
    /// Where the new file goes.
    pub destination: FixDestination,
    /// What the user should know.
    pub notes: Vec<FixNote>,
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
    /// Where in the file text moves to.
    pub moved: MovedText,
    /// Cut text at window boundaries, so that loaders ask for huge folios themselves.
    pub self_warming: bool,
}

/// Plans a fix; an error where nothing may be written, or not there.
pub fn plan_fix(
    on_host: &ProgramOnHost<'_>,
    request: &FixRequest,
    target: &FixTarget,
) -> Result<PlannedFix, Error> {
    let destination = FixDestination::of(&on_host.program, target)?;
    let decision = decide_fix(on_host, request)?;
    let notes = fix_notes(on_host, request, &decision, &destination)?;
    Ok(PlannedFix {
        decision,
        destination,
        notes,
    })
}

/// Decides about a copy that nobody has asked for yet. It is what [`plan_fix`] decides about a copy, without the notes,
/// some of which take other programs to find.
pub(crate) fn decide_copy(
    on_host: &ProgramOnHost<'_>,
    request: &FixRequest,
) -> Result<FixDecision, Error> {
    let decision = decide_fix(on_host, request)?;
    let changes = decision.proposal.as_ref();
    if changes.is_ok_and(|fix| !fix.done_already) {
        may_be_copied(&on_host.program)?;
    }
    Ok(decision)
}

/// Decides how to lay out a program; an error where no strategy may touch it. The new file is
/// assumed to be mapped at the same kind of address as the old one.
fn decide_fix(on_host: &ProgramOnHost<'_>, request: &FixRequest) -> Result<FixDecision, Error> {
    let image = &on_host.program.image;
    let geometry = &request.geometry;
    let mut options = Options {
        extend_tail: request.extend_tail,
        moved: request.moved,
        ..Options::for_image(image, geometry, request.strategy.strongest())
    };
    if request.self_warming {
        // Loaders ask for PMD leaves alone.
        options.leaf = geometry.pmd;
    }
    let bias = |segments: &[Segment]| on_host.bias_with(segments, geometry);
    let before = bias(&image.segments);
    let source = &on_host.program.file;
    let planned = match request.strategy {
        StrategyChoice::Auto => plan_auto(source, image, &options),
        StrategyChoice::AtMost(strategy) => plan(source, image, strategy, &options),
    };
    let planned = planned.and_then(|plan| warmed(on_host, request, plan, &options));
    let proposal = match planned {
        Ok(plan) => Ok(FixPlan {
            reached_after: plan.reached_at(image, geometry.page, bias(&plan.segments)),
            done_already: plan.is_noop(image),
            long_readahead: spoiling_readahead(on_host, geometry, &plan.segments),
            cold_start: after(on_host, geometry, &plan, Asker::GlibcTunable),
            plan,
        }),
        Err(PlanError::Refusal(refusal)) if !refusal.forbids() => Err(refusal),
        Err(error) => return Err(Error::unplanned(&on_host.program.path, error)),
    };
    Ok(FixDecision {
        text: image.text_len(),
        reached_before: reach(&image.segments, geometry.page, options.leaf, before).reached,
        leaf: options.leaf,
        proposal,
    })
}

/// The plan with its text cut, where that is asked for.
fn warmed(
    on_host: &ProgramOnHost<'_>,
    request: &FixRequest,
    plan: Plan,
    options: &Options,
) -> Result<Plan, PlanError> {
    let program = &on_host.program;
    if !request.self_warming {
        return Ok(plan);
    }
    // To keep text clear of readahead, and to join data, takes a shift.
    let may_move = request.strategy.strongest() >= Strategy::Shift;
    let readahead = long_readahead(on_host, &request.geometry).filter(|_| may_move);
    let readahead = readahead.unwrap_or(0);
    let warming = self_warming(&program.file, &program.image, plan, options, readahead)?;
    if warming.strategy > request.strategy.strongest() {
        return Err(Refusal::NoRoom.into());
    }
    Ok(warming)
}

/// What the user should know about a fix that goes to `destination`.
fn fix_notes(
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
        let voucher = destination.voucher(program, &on_host.host.packages)?;
        notes.extend(voucher.map(FixNote::Vouched));
        notes.extend(destination.old_traces());
    }
    Ok(notes)
}

/// Why its filesystem holds no folios for the leaf that a program is laid out for.
fn obstacle(program: &ProgramOnHost<'_>, geometry: &Geometry, leaf: Leaf) -> Option<Cause> {
    let (kind, leaf) = geometry.leaves().find(|(_, own)| *own == leaf)?;
    large_folios(program.pages, program.loader.kernel, kind, leaf).doubt()
}
