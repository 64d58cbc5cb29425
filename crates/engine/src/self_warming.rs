//! Which windows of a file loaders make huge on a cold start, before and after a fix.

use hugetext_elf::Plan;
use hugetext_leaf::{Asker, ColdStart, Geometry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cold_start::{after, at_start, spoiling_readahead};
use crate::fix::{FixRequest, StrategyChoice, decide_copy};
use crate::on_host::ProgramOnHost;

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
    /// The readahead of the device in bytes, if it is so long that fewer windows are huge, after the fix too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_readahead: Option<u64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl SelfWarming {
    /// What every asker makes of the file. All ask for PMD leaves alone.
    pub fn of(on_host: &ProgramOnHost<'_>, geometry: &Geometry) -> Vec<SelfWarming> {
        let leaf = geometry.pmd;
        let image = &on_host.program.image;
        let fixed = fixed(on_host, geometry);
        let last = fixed
            .as_ref()
            .map_or(&image.segments, |plan| &plan.segments);
        let long_readahead = spoiling_readahead(on_host, geometry, last);
        let of = |asker| {
            let now = at_start(
                on_host,
                geometry,
                leaf,
                &image.segments,
                &image.early_reads(),
                asker,
            );
            let (after_fix, refusal) = match &fixed {
                Ok(plan) => (Some(after(on_host, geometry, plan, asker)), None),
                Err(refusal) => (None, Some(refusal.clone())),
            };
            SelfWarming {
                asker,
                now,
                after_fix,
                long_readahead,
                refusal,
            }
        };
        Asker::ALL.map(of).into()
    }
}

/// The plan that changes no permission and makes the file warm itself, or why there is none.
fn fixed(on_host: &ProgramOnHost<'_>, geometry: &Geometry) -> Result<Plan, String> {
    let request = FixRequest {
        self_warming: true,
        ..FixRequest::plain(StrategyChoice::Auto, *geometry)
    };
    let decided = decide_copy(on_host, &request).map_err(|error| error.reason())?;
    let proposal = decided.proposal.map_err(|refusal| refusal.to_string());
    proposal.map(|fix| fix.plan)
}
