//! Decides about a rewrite with the bytes of the file too. What would stop it, or fail its proof, is found here,
//! before anything is written: what is planned can be carried out.

use hugetext_leaf::Span;

use crate::decide::layout;
use crate::error::ImageError;
use crate::image::Image;
use crate::options::{Options, Strategy};
use crate::plan::{Plan, PlanError};
use crate::preview::Preview;
use crate::refusal::Refusal;
use crate::rewrite::rewrite;
use crate::source::ReadAt;
use crate::verify::{Difference, verify_unshared};

/// The section in which a program keeps the checksum of the sizes and bytes of its executable segments, as it
/// finds them in memory: ClickHouse (`getHashOfLoadedBinary()`).
const TEXT_CHECKSUM: &str = ".clickhouse.hash";

/// Decides how to make text of `image`, which was read from `source`, reachable for `options.leaf` by `strategy` at
/// most. The plan can be carried out, and what it gives is proved to be the same program.
pub fn plan(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    strategy: Strategy,
    options: &Options,
) -> Result<Plan, PlanError> {
    admit(source, image, layout(image, strategy, options)?, options)
}

/// The least change that gives most text on huge pages: `Shift` if the file permits it, else `Align`. It never merges,
/// because a merge changes permissions.
pub fn plan_auto(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    options: &Options,
) -> Result<Plan, PlanError> {
    let refusal = match plan(source, image, Strategy::Shift, options) {
        Err(PlanError::Refusal(refusal)) => refusal,
        decided => return decided,
    };
    let aligned = plan(source, image, Strategy::Align, options);
    aligned.map_err(|_| refusal.into())
}

/// The plan, if it can be carried out and gives the same program.
pub(crate) fn admit(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: Plan,
    options: &Options,
) -> Result<Plan, PlanError> {
    let breaks_checksum = !keeps_text(image, &plan) && has_text_checksum(image)?;
    let operations = rewrite(source, image, &plan)?;
    if breaks_checksum {
        let section = TEXT_CHECKSUM;
        return Err(Refusal::TextChecksum { section }.into());
    }
    let preview = Preview::new(source, &operations, plan.file_len);
    let verified = verify_unshared(source, &preview, |old, new| preview.known(old, new));
    let verified = verified.map_err(|difference| match difference {
        Difference::Read(source) => PlanError::Image(ImageError::Read(source)),
        Difference::Old(source) => PlanError::Image(source),
        difference => Refusal::NotTheSame {
            difference: difference.to_string(),
        }
        .into(),
    })?;
    if !options.extend_tail && !plan.explains(&verified) {
        let difference = "it maps more than the plan says".to_owned();
        return Err(Refusal::NotTheSame { difference }.into());
    }
    Ok(plan)
}

/// Whether each executable segment keeps its address, its sizes, its rights and its bytes. Of its bytes, only the
/// header tables change.
fn keeps_text(image: &Image, plan: &Plan) -> bool {
    if plan.is_noop(image) {
        return true;
    }
    let seen = |segments: &[hugetext_leaf::Segment]| -> Vec<_> {
        let executable = segments.iter().filter(|segment| segment.perms.exec);
        executable
            .map(|segment| (segment.memory(), segment.filesz, segment.perms))
            .collect()
    };
    let tables = [image.program_table, image.section_table]
        .map(|table| Span::new(table.offset, table.end()));
    let mut changed = tables.into_iter().chain([image.file_header()]);
    let is_text = |range: &Span| {
        let mut segments = image.segments.iter();
        segments.any(|segment| segment.perms.exec && segment.file().overlaps(range))
    };
    seen(&image.segments) == seen(&plan.segments) && !changed.any(|range| is_text(&range))
}

fn has_text_checksum(image: &Image) -> Result<bool, ImageError> {
    let names = image.sections.names()?;
    let mut sections = image.sections.iter();
    Ok(sections.any(|(_, section)| names.of(section) == TEXT_CHECKSUM.as_bytes()))
}
