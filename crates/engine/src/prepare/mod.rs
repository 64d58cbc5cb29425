//! What `run` does before a command starts: finds its files, decides about each of them, prepares
//! them or copies of them, and shows the copies in a mount namespace.
//!
//! The steps: [`resolve`] names the programs that a command runs. [`Targets`] adds their libraries.
//! [`PrepareStep::of`] decides about each file. [`make_ready`] warms and copies in a child process
//! and rehearses the mounts there. [`Ready::enter`] repeats what succeeded in the process that
//! becomes the command. [`RecentCommand`] leaves all of it out where there was nothing to do a moment ago, and
//! [`move_again`] does what is left where the image of the program alone is moved.

mod advice;
mod decide;
mod leaves;
mod place;
mod placed;
mod ready;
mod recent;
mod request;
pub mod resolve;
mod room;
mod script;
mod shown_copy;
mod step;
mod targets;
mod unprepared;

use std::path::{Path, PathBuf};

use hugetext_loader::Environment;

use crate::host_context::HostContext;
pub use advice::{AUTOPILOT_DIRECTORY, AdvisedFile, ReplicaAdvice};
pub use decide::{CopyUse, LeaveReason, PrepareAction, PrepareFacts, decide_action};
pub use leaves::{enter_leaf_use, leaf_use_of_start};
pub use place::{CopyGround, CopyPlace, stores_on_disk, user_store_root};
pub use placed::move_again;
pub use ready::{Ready, make_ready};
pub use recent::{RecentCommand, RecentStart};
pub use request::{CopyBackend, PrepareRequest};
pub use room::MemoryRoom;
pub use step::{PreparePolicy, PrepareStep, StandIn};
pub use targets::Targets;
pub use unprepared::{LeftFile, LeftReason, Unprepared};

impl PrepareRequest {
    fn policy(&self, ground: CopyGround) -> PreparePolicy {
        PreparePolicy {
            merge: self.merge,
            copies: match self.backend {
                CopyBackend::None => CopyUse::Never,
                CopyBackend::Memory => CopyUse::Preferred,
                CopyBackend::Auto | CopyBackend::Cache => CopyUse::IfNeeded,
            },
            replica: self.replica,
            ground,
            seen_through: None,
        }
    }
}

/// The decisions about every file that a command is known to map.
#[derive(Debug)]
pub struct PreparePlan<'h> {
    /// The files with text that may fill a window.
    pub steps: Vec<PrepareStep<'h>>,
    /// Files too small for a window of text.
    pub small: Vec<PathBuf>,
}

/// Decides about every file that `program` and the further files of the request are known to map.
pub fn plan_preparation<'h>(
    program: &Path,
    host: &'h HostContext,
    request: &PrepareRequest,
    unprepared: &mut Unprepared,
) -> PreparePlan<'h> {
    let mut plan = PreparePlan {
        steps: Vec::new(),
        small: Vec::new(),
    };
    let mut room = match request.replica {
        Some(_) => MemoryRoom::of_replicas(),
        None => MemoryRoom::here(),
    };
    let programs = resolve::programs(program);
    if let Some(found) = programs
        .iter()
        .find(|program| resolve::changes_user(program))
    {
        unprepared.leave(found, LeftReason::ChangesUser);
        return plan;
    }
    if room.is_none() {
        unprepared.leave(program, LeftReason::TooLittleMemory);
        return plan;
    }
    let environment = Environment::current();
    let mut targets = Targets::new(host.leaf, request.merge, &environment);
    for program in &programs {
        targets.add_program(program);
    }
    for name in &request.also {
        targets.add_named(name);
    }
    unprepared.problems.append(&mut targets.problems);
    if targets.files.is_empty() && request.also.is_empty() && resolve::is_shell_script(program) {
        unprepared.opaque_script = Some(program.into());
    }
    // A replica divides the lock of small files too, and most of all theirs: libc and the loader.
    let small = match request.replica {
        Some(_) => std::mem::take(&mut targets.small),
        None => Vec::new(),
    };
    let policy = request.policy(place::ground(request, host));
    let executed = programs.first().and_then(|path| path.canonicalize().ok());
    for path in targets.files.iter().chain(&small) {
        match PrepareStep::of(path, host, policy) {
            Ok(step) => {
                let is_executed = Some(&step.path) == executed.as_ref();
                let step = if is_executed { step.executed() } else { step };
                plan.steps.push(step.if_it_fits(&mut room));
            }
            Err(error) => unprepared.fail(&error),
        }
    }
    plan.small = targets.small;
    plan
}
