//! A program whose image is moved before its first instruction.

use std::path::Path;

use hugetext_promote::{NotPlaced, PlacedText, Waiting, place_at_exec};
use hugetext_store::Store;

use super::decide::PrepareAction;
use super::place::{CopyPlace, choose, ground};
use super::request::PrepareRequest;
use super::resolve;
use super::step::PrepareStep;
use crate::error::Error;
use crate::host_context::HostContext;
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

/// Has the image of a command moved for which nothing else had to be done a moment ago
/// ([`RecentStart::Moved`](super::RecentStart)). Only the program that is executed is looked at. Returns false if no tracer waits
/// for it, so that all has to be looked at.
pub fn move_again(
    program: &Path,
    host: &HostContext,
    request: &PrepareRequest,
    waiting: Waiting<'_>,
) -> bool {
    let programs = resolve::programs(program);
    let Some(executed) = programs.first() else {
        return false;
    };
    if programs
        .iter()
        .any(|program| resolve::changes_user(program))
    {
        return false;
    }
    let step = PrepareStep::of(executed, host, request.policy(ground(request, host)));
    let Ok(step) = step.map(PrepareStep::executed) else {
        return false;
    };
    if !step.text_alone {
        return false;
    }
    let placed = match step.action {
        PrepareAction::Warm => place(&step, None, waiting),
        _ => match choose(request, host) {
            Ok(CopyPlace::Stores(stores)) => place(&step, Some(&stores), waiting),
            Ok(CopyPlace::Private(_)) | Err(_) => return false,
        },
    };
    placed.is_ok()
}
