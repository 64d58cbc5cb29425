//! Prepares the files of the steps, and shows copies in place of the originals.
//!
//! A child process does all work that takes memory or time or may fail. A child of it tries the
//! namespace and the mounts. The process that becomes the command only repeats the steps that
//! succeeded in the child.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hugetext_host::{
    Namespace, NamespaceError, in_child, limit_listing, mount_huge_tmpfs, protect, uncover,
};
use hugetext_leaf::replica::Replica;
use hugetext_promote::Waiting;
use hugetext_store::{DEFAULT_LIMIT, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::decide::{LeaveReason, PrepareAction};
use super::place::{CopyGround, CopyPlace, choose};
use super::placed::{PlaceError, place};
use super::recent::RecentStart;
use super::request::{CopyBackend, PrepareRequest};
use super::room::MemoryRoom;
use super::shown_copy::ShownCopy;
use super::step::{PreparePolicy, PrepareStep};
use super::unprepared::{LeftReason, Unprepared};
use crate::error::Error;
use crate::host_context::HostContext;
use crate::problem::Problem;

/// The remaining work of the process that becomes the command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    remaining: Remaining,
    /// Whether a tracer waits for the execution.
    is_awaited: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
enum Remaining {
    /// No work.
    #[default]
    AsItIs,
    /// Files to show in a namespace. Each was shown in the rehearsal.
    Shown(Namespace, Vec<ShownCopy>),
    /// A tmpfs to mount over a directory in a namespace, and to fill with copies of these files.
    InMemory(Namespace, OsString, Vec<OsString>),
}

impl Ready {
    /// What the next start of the same command can do without, if anything: no copy has to be shown for this one.
    pub fn start(&self) -> Option<RecentStart> {
        match (&self.remaining, self.is_awaited) {
            (Remaining::AsItIs, false) => Some(RecentStart::AsItIs),
            (Remaining::AsItIs, true) => Some(RecentStart::Moved),
            (Remaining::Shown(..) | Remaining::InMemory(..), _) => None,
        }
    }

    /// Whether a tracer waits for the execution of the program, to move its image.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }
}

/// Warms, fixes and copies in a child process, which may end up in its own namespace. Files that
/// cannot be prepared are added to `unprepared`. `waiting` names the process that becomes the command, if it may be
/// traced meanwhile.
pub fn make_ready(
    mut steps: Vec<PrepareStep<'_>>,
    host: &HostContext,
    request: &PrepareRequest,
    waiting: Option<Waiting<'_>>,
    unprepared: &mut Unprepared,
) -> Ready {
    let place = OnceCell::new();
    let choose = || choose(request, host);
    warm_in_place(
        &mut steps,
        request,
        || place.get_or_init(choose),
        unprepared,
    );
    let mut is_awaited = false;
    if let Some(step) = take_moved(&mut steps, |step| step.action == PrepareAction::Warm) {
        is_awaited = await_execution(step, None, waiting, &mut steps, unprepared);
    }
    if steps.is_empty() {
        return Ready {
            remaining: Remaining::AsItIs,
            is_awaited,
        };
    }
    let place = place.into_inner().unwrap_or_else(choose);
    let place = place.map_err(|error| Problem::from(&error));
    let moved = take_moved(&mut steps, |_| true);
    let remaining = place.and_then(|place| match (place, moved) {
        (CopyPlace::Stores(stores), moved) => {
            if let Some(step) = moved {
                is_awaited = await_execution(step, Some(&stores), waiting, &mut steps, unprepared);
            }
            show_from(&steps, &stores, unprepared)
        }
        (CopyPlace::Private(directory), moved) => {
            steps.extend(moved.map(PrepareStep::unmoved));
            show_in_memory(&steps, directory, request)
        }
    });
    let remaining = remaining.unwrap_or_else(|problem| {
        unprepared.problems.push(problem);
        for step in &steps {
            // The windows of the unchanged file are better than none.
            let _ = step.warm();
        }
        Remaining::AsItIs
    });
    Ready {
        remaining,
        is_awaited,
    }
}

/// Takes the program whose image is to be moved out of the steps.
fn take_moved<'h>(
    steps: &mut Vec<PrepareStep<'h>>,
    wanted: impl Fn(&PrepareStep<'h>) -> bool,
) -> Option<PrepareStep<'h>> {
    let index = steps
        .iter()
        .position(|step| step.text_alone && wanted(step))?;
    Some(steps.remove(index))
}

/// Lets a tracer wait for the execution of the program, which then takes its text from a copy in one of `stores`, or from its
/// own file. If the machine does not permit it, the step is added to `steps`, because a copy takes the place of the program.
fn await_execution<'h>(
    step: PrepareStep<'h>,
    stores: Option<&[Store]>,
    waiting: Option<Waiting<'_>>,
    steps: &mut Vec<PrepareStep<'h>>,
    unprepared: &mut Unprepared,
) -> bool {
    let Some(waiting) = waiting else {
        steps.push(step.unmoved());
        return false;
    };
    match place(&step, stores, waiting) {
        Ok(is_warm) => {
            if !is_warm {
                unprepared.leave(&step.path, LeftReason::CopyNotFullyWarm);
            }
            true
        }
        Err(PlaceError::NotPlaced(_)) => {
            steps.push(step.unmoved());
            false
        }
        Err(PlaceError::Copy(error)) => {
            unprepared.fail(&error);
            false
        }
    }
}

/// Warms the files that need no copy. Those that do stay in `steps`, and so does a program whose image is to be moved.
fn warm_in_place<'p>(
    steps: &mut Vec<PrepareStep<'_>>,
    request: &PrepareRequest,
    place: impl Fn() -> &'p Result<CopyPlace, Error>,
    unprepared: &mut Unprepared,
) {
    leave_out(steps, unprepared);
    for step in steps
        .iter_mut()
        .filter(|step| step.action == PrepareAction::Warm)
    {
        let may_stand_in = request.backend != CopyBackend::None && step.may_stand_in;
        match warm_unless_copied(step, may_stand_in, &place) {
            Ok(true) => {}
            Ok(false) if may_stand_in => step.action = PrepareAction::Copy,
            Ok(false) => unprepared.leave(&step.path, LeftReason::NotFullyWarm),
            Err(error) => unprepared.fail(&error),
        }
    }
    steps.retain(|step| step.needs_store() || step.text_alone);
}

/// Shows copies from stores in a namespace.
fn show_from(
    steps: &[PrepareStep<'_>],
    stores: &[Store],
    unprepared: &mut Unprepared,
) -> Result<Remaining, Problem> {
    if steps.is_empty() {
        return Ok(Remaining::AsItIs);
    }
    let namespace = namespace(steps, stores).map_err(|error| Problem::from(&error))?;
    let copies = stand_ins(steps, stores, unprepared);
    rehearse(namespace, copies, unprepared)
}

/// Shows copies from a tmpfs in a namespace.
fn show_in_memory(
    steps: &[PrepareStep<'_>],
    directory: PathBuf,
    request: &PrepareRequest,
) -> Result<Remaining, Problem> {
    let namespace = Namespace::permitted().map_err(Error::NoNamespace);
    let namespace = namespace.map_err(|error| Problem::from(&error))?;
    within(namespace, || {
        let mounted = mount_memory(&directory, request.replica);
        mounted.map_err(|error| Problem::from(&error))
    })??;
    let files = steps.iter().map(|step| step.path.clone().into());
    Ok(Remaining::InMemory(
        namespace,
        directory.into(),
        files.collect(),
    ))
}

/// The namespace to show files in. It is tried before any copy is made, so that no copy is made
/// that cannot be shown. If all copies exist already, the rehearsal is enough.
fn namespace(steps: &[PrepareStep<'_>], stores: &[Store]) -> Result<Namespace, Error> {
    let all_there = steps.iter().all(|step| step.is_in(stores));
    let namespace = if all_there {
        Namespace::permitted()
    } else {
        Namespace::possible()
    };
    namespace.map_err(Error::NoNamespace)
}

/// Does `work` in a process of its own, in the namespace. This process may have threads by now, which read what
/// processes map ([`limit_listing`]). A process that enters a user namespace may have one thread only.
fn within<T>(namespace: Namespace, work: impl FnOnce() -> T) -> Result<T, Problem>
where
    T: Serialize + DeserializeOwned,
{
    let done = in_child(|| {
        let entered = namespace.enter().map_err(|error| error.to_string());
        entered.map(|()| work())
    });
    let done = match done {
        Ok(done) => done.map_err(NamespaceError::Refused),
        Err(error) => Err(NamespaceError::Rehearsal(error)),
    };
    done.map_err(|error| Problem::from(&Error::NoNamespace(error)))
}

fn mount_memory(directory: &Path, replica: Option<Replica>) -> Result<(), Error> {
    let size = MemoryRoom::here().at_most(DEFAULT_LIMIT);
    // A tmpfs takes the size 0 as no limit.
    if size == 0 {
        return Err(Error::NoRoomForCopies {
            path: directory.to_owned(),
        });
    }
    let node = replica.and_then(Replica::node);
    mount_huge_tmpfs(directory, size, node).map_err(|source| Error::NoTmpfs {
        path: directory.to_owned(),
        source,
    })
}

/// Shows the copies in the namespace, to find out which can be shown.
fn rehearse(
    namespace: Namespace,
    copies: Vec<ShownCopy>,
    unprepared: &mut Unprepared,
) -> Result<Remaining, Problem> {
    if copies.is_empty() {
        return Ok(Remaining::AsItIs);
    }
    let (copies, found) = within(namespace, || {
        let mut unprepared = Unprepared::default();
        let copies = copies.into_iter().filter(|copy| match copy.show() {
            Ok(()) => true,
            Err(error) => {
                unprepared.fail(&error);
                false
            }
        });
        (copies.collect::<Vec<ShownCopy>>(), unprepared)
    })?;
    unprepared.add(found);
    Ok(if copies.is_empty() {
        Remaining::AsItIs
    } else {
        Remaining::Shown(namespace, copies)
    })
}

impl Ready {
    /// Does the remaining work in the process that becomes the command. After an error, the
    /// process may have lost its identity and must not become the command. The rehearsal makes such
    /// an error unlikely.
    pub fn enter(self, request: &PrepareRequest, unprepared: &mut Unprepared) -> Result<(), Error> {
        let namespace = match &self.remaining {
            Remaining::AsItIs => return Ok(()),
            Remaining::Shown(namespace, _) | Remaining::InMemory(namespace, ..) => *namespace,
        };
        namespace.enter().map_err(Error::HalfwayInNamespace)?;
        unprepared.in_user_namespace |= namespace == Namespace::User;
        match self.remaining {
            Remaining::AsItIs => {}
            Remaining::Shown(_, copies) => {
                show_all(&copies, unprepared);
            }
            Remaining::InMemory(_, directory, files) => {
                let policy = request.policy(CopyGround::Windows);
                let shown = in_memory(Path::new(&directory), &files, policy, unprepared);
                shown.unwrap_or_else(|error| unprepared.fail(&error));
            }
        }
        Ok(())
    }
}

/// Shows each copy. Returns how many are shown.
fn show_all(copies: &[ShownCopy], unprepared: &mut Unprepared) -> usize {
    let mut shown = 0;
    for copy in copies {
        match copy.show() {
            Ok(()) => shown += 1,
            Err(error) => unprepared.fail(&error),
        }
    }
    shown
}

/// Makes copies in a tmpfs that only this process and its children see. A child fills it, in the
/// namespace that it shares with this process.
fn in_memory(
    directory: &Path,
    files: &[OsString],
    policy: PreparePolicy,
    unprepared: &mut Unprepared,
) -> Result<(), Error> {
    mount_memory(directory, policy.replica)?;
    let filled = in_child(|| {
        limit_listing();
        let mut unprepared = Unprepared::default();
        let shown = fill_memory(directory, files, policy, &mut unprepared);
        (shown, unprepared)
    });
    let shown = match filled {
        Ok((shown, found)) => {
            unprepared.add(found);
            shown
        }
        Err(error) => {
            unprepared.fail(&Error::Child {
                path: directory.to_owned(),
                source: error,
            });
            0
        }
    };
    let hidden = match shown {
        0 => uncover(directory),
        _ => protect(directory),
    };
    hidden.map_err(|source| Error::Mount {
        path: directory.to_owned(),
        source,
    })
}

/// Makes the copies and shows them. Returns how many are shown.
fn fill_memory(
    directory: &Path,
    files: &[OsString],
    policy: PreparePolicy,
    unprepared: &mut Unprepared,
) -> usize {
    let filled = || {
        let store = Store::in_private_mount(directory);
        let store = store.map_err(|source| Error::Store {
            subject: "store".to_owned(),
            source,
        })?;
        Ok::<_, Error>((store, HostContext::with_huge_pages()?))
    };
    let (store, host) = match filled() {
        Ok(made) => made,
        Err(error) => {
            unprepared.fail(&error);
            return 0;
        }
    };
    let mut steps = Vec::new();
    for file in files {
        match PrepareStep::of(Path::new(file), &host, policy) {
            Ok(step) => steps.push(step.in_a_copy()),
            Err(error) => unprepared.fail(&error),
        }
    }
    let copies = stand_ins(&steps, &[store], unprepared);
    show_all(&copies, unprepared)
}

/// Reports the files that are left by decision, except those that have nothing to gain.
fn leave_out(steps: &[PrepareStep<'_>], unprepared: &mut Unprepared) {
    for step in steps {
        match step.action {
            PrepareAction::Leave {
                why: LeaveReason::Small,
            } => {}
            PrepareAction::Leave { why } => unprepared.leave(&step.path, LeftReason::Decided(why)),
            PrepareAction::Warm | PrepareAction::Copy | PrepareAction::Fix => {}
        }
    }
}

/// Warms a file in place. Returns whether all of it is warm afterwards. Nothing is tried if a copy
/// exists. The copy was made when other processes mapped the file in small folios. Those folios
/// cannot be dropped while they are mapped, and another attempt would take longer than most
/// starts.
fn warm_unless_copied<'p>(
    step: &PrepareStep<'_>,
    may_stand_in: bool,
    place: impl Fn() -> &'p Result<CopyPlace, Error>,
) -> Result<bool, Error> {
    match step.is_warm() {
        Ok(true) => Ok(true),
        Ok(false) if may_stand_in && step.has_copy(place()) => Ok(false),
        _ => step.warm(),
    }
}

/// The copies that could be made or found.
fn stand_ins(
    steps: &[PrepareStep<'_>],
    stores: &[Store],
    unprepared: &mut Unprepared,
) -> Vec<ShownCopy> {
    let mut ready = Vec::new();
    for step in steps {
        match step.stand_in(stores) {
            Ok(copy) => {
                if !copy.is_warm {
                    unprepared.leave(&step.path, LeftReason::CopyNotFullyWarm);
                }
                ready.push(ShownCopy::of(step, &copy.entry));
            }
            Err(error) => unprepared.fail(&error),
        }
    }
    ready
}
