//! Which windows of a file loaders make huge on a cold start, before and after a fix.

use hugetext_elf::{DividedSections, Image, Options, Plan, Strategy, plan_auto, self_warming};
use hugetext_leaf::{Asker, ColdStart, EarlyRead, Geometry, Leaf, Segment, Start, cold_start};
use schemars::JsonSchema;
use serde::Serialize;

use crate::on_host::ProgramOnHost;
use crate::program::Program;

/// Readahead of a block device, bytes (Linux's default, VM_READAHEAD_PAGES).
const READAHEAD: u64 = 128 << 10;

/// The cold starts of a file under one asker.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SelfWarming {
    /// Who asks.
    pub asker: Asker,
    /// With the present layout.
    pub now: ColdStart,
    /// After `fix --self-warming`; absent if there is no such fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_fix: Option<ColdStart>,
    /// Whether that is more, and `fix` without an option gives it too, because it costs tools nothing.
    pub by_auto: bool,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl SelfWarming {
    /// What every asker makes of the file, for leaves of `leaf`.
    pub fn of(on_host: &ProgramOnHost<'_>, geometry: &Geometry, leaf: Leaf) -> Vec<SelfWarming> {
        let image = &on_host.program.image;
        let fixed = fixed(on_host, geometry);
        let of = |asker| {
            let now = at_start(
                on_host,
                geometry,
                leaf,
                &image.segments,
                &image.early_reads(),
                asker,
            );
            let (after_fix, by_auto, refusal) = match &fixed {
                Ok(plan) => {
                    let after = after(on_host, geometry, plan, asker);
                    let by_auto = after.huge > now.huge && plan.warms_for_nothing();
                    (Some(after), by_auto, None)
                }
                Err(refusal) => (None, false, Some(refusal.clone())),
            };
            SelfWarming {
                asker,
                now,
                after_fix,
                by_auto,
                refusal,
            }
        };
        Asker::ALL.map(of).into()
    }
}

/// The plan that changes no permission and makes the file warm itself, or why there is none.
fn fixed(on_host: &ProgramOnHost<'_>, geometry: &Geometry) -> Result<Plan, String> {
    let program = &on_host.program;
    let image: &Image = &program.image;
    let options = Options::for_image(image, geometry, Strategy::Shift);
    let base = plan_auto(image, &options).map_err(|refusal| refusal.to_string())?;
    let divided = DividedSections::Cut;
    let warming = self_warming(&program.file, image, base, &options, divided);
    warming.map_err(|error| error.to_string())
}

/// The plan with its text cut if that costs nothing; `plan` itself if it does, or if no cut is possible.
/// It costs nothing where no section is cut and no header left out. A copy whose sections stay whole never
/// pays: its readers see the sections of the original, and what is left out another header tells.
pub(crate) fn cut_for_nothing(
    program: &Program,
    plan: Plan,
    options: &Options,
    divided: DividedSections,
) -> Plan {
    let warming = self_warming(
        &program.file,
        &program.image,
        plan.clone(),
        options,
        divided,
    );
    let is_free = |warming: &Plan| match divided {
        DividedSections::Cut => warming.warms_for_nothing(),
        DividedSections::Keep => true,
    };
    warming.ok().filter(is_free).unwrap_or(plan)
}

/// The cold start of the file that `plan` gives.
pub(crate) fn after(
    on_host: &ProgramOnHost<'_>,
    geometry: &Geometry,
    plan: &Plan,
    asker: Asker,
) -> ColdStart {
    let early = plan.early_reads();
    at_start(on_host, geometry, plan.leaf, &plan.segments, &early, asker)
}

fn at_start(
    on_host: &ProgramOnHost<'_>,
    geometry: &Geometry,
    leaf: Leaf,
    segments: &[Segment],
    early: &[EarlyRead],
    asker: Asker,
) -> ColdStart {
    let start = Start {
        kind: on_host.program.image.kind,
        segments,
        early,
        page: geometry.page,
        leaf,
        bias: on_host.bias_with(segments, geometry),
        readahead: READAHEAD,
    };
    cold_start(asker, &start)
}
