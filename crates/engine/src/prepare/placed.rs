//! A program whose image is moved before its first instruction.

use hugetext_promote::{NotPlaced, PlacedText, Waiting, place_at_exec};
use hugetext_store::Store;

use super::step::PrepareStep;
use crate::error::Error;
use crate::program::Program;

/// Why the image of a program is not moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    /// The copy for its text cannot be made or read.
    #[error(transparent)]
    Copy(#[from] Error),
    /// This kernel or machine does not permit it.
    #[error(transparent)]
    NotPlaced(#[from] NotPlaced),
}

/// From now on, if the waiting process executes the program of this step, its image is moved, and its text comes from a copy in one of
/// `stores`, or from the program itself. Returns whether that text is warm.
pub(super) fn place(
    step: &PrepareStep<'_>,
    stores: Option<&[Store]>,
    waiting: Waiting<'_>,
) -> Result<bool, PlaceError> {
    let program = step.program();
    let (image, id) = (&program.image, program.id());
    let mut placed = PlacedText {
        program: step.state(),
        entry: image.entry,
        segments: image.segments.clone(),
        leaf: step.leaf(),
        text: step.path.clone(),
        text_id: id,
        text_segments: image.segments.clone(),
    };
    let mut is_warm = true;
    if let Some(stores) = stores {
        let copy = step.stand_in(stores)?;
        is_warm = copy.is_warm;
        placed.text_segments = Program::open(&copy.entry.path)?.image.segments;
        placed.text_id = copy.entry.id;
        placed.text = copy.entry.path;
    }
    place_at_exec(waiting, placed)?;
    Ok(is_warm)
}
