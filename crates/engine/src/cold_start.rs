//! The cold start of a program on this machine, before and after a plan.

use hugetext_elf::Plan;
use hugetext_leaf::{Asker, ColdStart, EarlyRead, Geometry, Leaf, Segment, Start, cold_start};

use crate::on_host::ProgramOnHost;

/// Readahead of a block device, bytes (Linux's default, VM_READAHEAD_PAGES).
const READAHEAD: u64 = 128 << 10;

/// The cold start of the file that `plan` gives.
pub(crate) fn after(
    on_host: &ProgramOnHost<'_>,
    geometry: &Geometry,
    plan: &Plan,
    asker: Asker,
) -> ColdStart {
    let early = plan.early_reads();
    let leaf = geometry.pmd;
    at_start(on_host, geometry, leaf, &plan.segments, &early, asker)
}

/// The cold start of a layout.
pub(crate) fn at_start(
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
