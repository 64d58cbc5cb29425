//! The cold start of a program on this machine, before and after a plan.

use hugetext_elf::{Plan, is_clear_of};
use hugetext_host::readahead_of;
use hugetext_leaf::{Asker, ColdStart, EarlyRead, Geometry, Leaf, Segment, Start, cold_start};

use crate::on_host::ProgramOnHost;

/// Readahead behind what is read early, bytes: that of a block device by default (VM_READAHEAD_PAGES).
const READAHEAD: u64 = 128 << 10;

/// The readahead of the device that the program lies on, in bytes, if it is a leaf or longer. A fault outside of what
/// loaders ask for, as those on the beginning of the text and on data, then reads half of it on either side, in small
/// folios: windows that are near in the file are not huge.
pub(crate) fn long_readahead(on_host: &ProgramOnHost<'_>, geometry: &Geometry) -> Option<u64> {
    let readahead = readahead_of(&on_host.program.file)?;
    (readahead >= geometry.pmd.bytes()).then_some(readahead)
}

/// The same, if it reaches windows of text in this layout.
pub(crate) fn spoiling_readahead(
    on_host: &ProgramOnHost<'_>,
    geometry: &Geometry,
    segments: &[Segment],
) -> Option<u64> {
    let readahead = long_readahead(on_host, geometry)?;
    (!is_clear_of(segments, geometry.pmd, readahead)).then_some(readahead)
}

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
