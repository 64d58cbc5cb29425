//! Prepares the files of the steps, and shows copies in place of the originals.
//!
//! A child process does all work that takes memory or time or may fail. It also tries the
//! namespace and the mounts. The process that becomes the command only repeats the steps that
//! succeeded in the child.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::Path;

use hugetext_host::{
    DEFAULT_LIMIT, Entry, FileState, Mountable, Namespace, NamespaceError, Store, in_child,
    mount_huge_tmpfs, protect, uncover,
};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, plain};
use crate::run::place::{Place, choose};
use crate::run::prepare::{Action, Policy, Reason, Step};
use crate::run::room::Room;
use crate::run::{Backend, Decided, Options, Unprepared};
use crate::warm::Ground;

/// The remaining work of the process that becomes the command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) enum Ready {
    /// No work.
    #[default]
    AsItIs,
    /// Files to show in a namespace. Each was shown in the rehearsal.
    Shown(Namespace, Vec<Showing>),
    /// A tmpfs to mount over a directory in a namespace, and to fill with copies of these files.
    InMemory(Namespace, OsString, Vec<OsString>),
}

/// A copy and the file that it replaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Showing {
    /// The path of the file, without symbolic links.
    original: OsString,
    /// The state of the file when the copy was chosen or made.
    original_state: FileState,
    copy: OsString,
    copy_inode: (u64, u64),
}

impl Showing {
    fn of(step: &Step, entry: &Entry) -> Showing {
        Showing {
            original: step.path.clone().into(),
            original_state: step.state,
            copy: entry.path.clone().into(),
            copy_inode: entry.inode,
        }
    }

    /// Mounts the copy over its original, if both are still the files that were checked.
    fn show(&self) -> Result<(), Failure> {
        let path = Path::new(&self.original);
        let failed = |error: std::io::Error| Failure::at(path, plain(&error));
        let original = Mountable::open(path).map_err(failed)?;
        let copy = Mountable::open(Path::new(&self.copy)).map_err(failed)?;
        if !original.is_still(self.original_state) || !copy.is(self.copy_inode) {
            return Err(Failure::at(
                path,
                "changed meanwhile, so it runs without its copy",
            ));
        }
        copy.mount_over(&original).map_err(failed)
    }
}

/// Warms, fixes and copies in a child process, which may end up in its own namespace. Files that
/// cannot be prepared are added to `unprepared`.
pub(crate) fn make_ready(
    decided: Decided,
    options: &Options,
    unprepared: &mut Unprepared,
) -> Ready {
    let Decided {
        ground, mut steps, ..
    } = decided;
    leave_out(&steps, unprepared);
    let place = OnceCell::new();
    let choose = || choose(options, &ground);
    for step in steps.iter_mut().filter(|step| step.action == Action::Warm) {
        let may_stand_in = options.backend != Backend::None && step.may_stand_in;
        match warm_unless_copied(step, may_stand_in, &ground, || place.get_or_init(choose)) {
            Ok(true) => {}
            Ok(false) if may_stand_in => step.action = Action::Copy,
            Ok(false) => unprepared.leave(&step.path, "not fully warm: other processes use it"),
            Err(failure) => unprepared.fail(&failure),
        }
    }
    steps.retain(Step::needs_store);
    if steps.is_empty() {
        return Ready::AsItIs;
    }
    let place = place.into_inner().unwrap_or_else(choose);
    let ready = place.and_then(|place| match place {
        Place::Stores(stores) => {
            let namespace = namespace(&steps, &stores)?;
            let copies = stand_ins(&steps, &stores, &ground, unprepared);
            rehearse(namespace, copies, unprepared)
        }
        Place::Private(directory) => {
            let namespace = Namespace::permitted().map_err(refused)?;
            enter(namespace)?;
            mount_memory(&directory)?;
            let files = steps.iter().map(|step| step.path.clone().into());
            Ok(Ready::InMemory(
                namespace,
                directory.into(),
                files.collect(),
            ))
        }
    });
    ready.unwrap_or_else(|failure| {
        unprepared.fail(&failure);
        for step in &steps {
            // The windows of the unchanged file are better than none.
            let _ = step.warm(&ground);
        }
        Ready::AsItIs
    })
}

/// The namespace to show files in. It is tried before any copy is made, so that no copy is made
/// that cannot be shown. If all copies exist already, the rehearsal is enough.
fn namespace(steps: &[Step], stores: &[Store]) -> Result<Namespace, Failure> {
    let all_there = steps.iter().all(|step| step.is_in(stores));
    let namespace = match all_there {
        true => Namespace::permitted(),
        false => Namespace::possible(),
    };
    namespace.map_err(refused)
}

fn enter(namespace: Namespace) -> Result<(), Failure> {
    let entered = namespace.enter();
    entered.map_err(|error| refused(NamespaceError::Refused(error.to_string())))
}

fn mount_memory(directory: &Path) -> Result<(), Failure> {
    let size = Room::here().at_most(DEFAULT_LIMIT);
    // A tmpfs takes the size 0 as no limit.
    if size == 0 {
        return Err(Failure::at(
            directory,
            "the memory cgroup has no room for copies",
        ));
    }
    mount_huge_tmpfs(directory, size)
        .map_err(|error| Failure::at(directory, format!("no tmpfs: {}", plain(&error))))
}

fn refused(error: NamespaceError) -> Failure {
    Failure::new("run", format!("no mount namespace: {}", plain(&error)))
        .remedy("files are only warmed in place")
}

/// Enters the namespace and shows the copies, to find out which copies can be shown.
fn rehearse(
    namespace: Namespace,
    mut copies: Vec<Showing>,
    unprepared: &mut Unprepared,
) -> Result<Ready, Failure> {
    if copies.is_empty() {
        return Ok(Ready::AsItIs);
    }
    enter(namespace)?;
    copies.retain(|copy| match copy.show() {
        Ok(()) => true,
        Err(failure) => {
            unprepared.fail(&failure);
            false
        }
    });
    Ok(match copies.is_empty() {
        true => Ready::AsItIs,
        false => Ready::Shown(namespace, copies),
    })
}

/// Does the remaining work in the process that becomes the command. After an error, the process
/// may have lost its identity and must not become the command. The rehearsal makes such an error
/// unlikely.
pub(crate) fn carry_out(
    ready: Ready,
    policy: Policy,
    unprepared: &mut Unprepared,
) -> Result<(), Failure> {
    let namespace = match &ready {
        Ready::AsItIs => return Ok(()),
        Ready::Shown(namespace, _) | Ready::InMemory(namespace, ..) => *namespace,
    };
    namespace.enter().map_err(|error| {
        let problem = format!("entering the namespace failed halfway: {}", plain(&error));
        Failure::new("run", problem).remedy("--backend none needs no namespace")
    })?;
    if namespace == Namespace::User {
        unprepared.note(USER_NAMESPACE);
    }
    match ready {
        Ready::AsItIs => {}
        Ready::Shown(_, copies) => {
            show_all(&copies, unprepared);
        }
        Ready::InMemory(_, directory, files) => {
            let shown = in_memory(Path::new(&directory), &files, policy, unprepared);
            shown.unwrap_or_else(|failure| unprepared.fail(&failure));
        }
    }
    Ok(())
}

/// The effect of a user namespace on the calls of a command, printed with more detail.
const USER_NAMESPACE: &str = "run: the command is in a user namespace: it cannot give files to \
                              another group (chgrp, setgroups), files of other users show as \
                              nobody's, and set-id programs such as sudo do not change the user";

/// How many of them are shown in that case.
fn show_all(copies: &[Showing], unprepared: &mut Unprepared) -> usize {
    let mut shown = 0;
    for copy in copies {
        match copy.show() {
            Ok(()) => shown += 1,
            Err(failure) => unprepared.fail(&failure),
        }
    }
    shown
}

/// Makes copies in a tmpfs that only this process and its children see. A child fills it, in the
/// namespace that it shares with this process.
fn in_memory(
    directory: &Path,
    files: &[OsString],
    policy: Policy,
    unprepared: &mut Unprepared,
) -> Result<(), Failure> {
    mount_memory(directory)?;
    let filled = in_child(|| {
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
            unprepared.fail(&Failure::at(directory, error));
            0
        }
    };
    let hidden = match shown {
        0 => uncover(directory),
        _ => protect(directory),
    };
    hidden.map_err(|error| Failure::at(directory, plain(&error)))
}

/// How many files are shown from `directory` in that case.
fn fill_memory(
    directory: &Path,
    files: &[OsString],
    policy: Policy,
    unprepared: &mut Unprepared,
) -> usize {
    let filled = || {
        let store = Store::in_private_mount(directory);
        let store = store.map_err(|error| Failure::new("store", error))?;
        Ok((store, Ground::this()?))
    };
    let (store, ground) = match filled() {
        Ok(made) => made,
        Err(failure) => {
            unprepared.fail(&failure);
            return 0;
        }
    };
    let mut steps = Vec::new();
    for file in files {
        match Step::of(Path::new(file), &ground, policy) {
            Ok(step) => steps.push(step.in_a_copy()),
            Err(failure) => unprepared.fail(&failure),
        }
    }
    let copies = stand_ins(&steps, &[store], &ground, unprepared);
    show_all(&copies, unprepared)
}

/// Reports the files that are left by decision, except those that have nothing to gain.
fn leave_out(steps: &[Step], unprepared: &mut Unprepared) {
    for step in steps {
        match step.action {
            Action::Leave { why: Reason::Small } => {}
            Action::Leave { why } => unprepared.leave(&step.path, why),
            Action::Warm | Action::Copy | Action::Fix => {}
        }
    }
}

/// Warms a file in place. Returns whether all of it is warm afterwards. Nothing is tried if a copy
/// exists. The copy was made when other processes mapped the file in small folios. Those folios
/// cannot be dropped while they are mapped, and another attempt would take longer than most
/// starts.
fn warm_unless_copied<'p>(
    step: &Step,
    may_stand_in: bool,
    ground: &Ground,
    place: impl Fn() -> &'p Result<Place, Failure>,
) -> Result<bool, Failure> {
    match step.is_warm(ground) {
        Ok(true) => Ok(true),
        Ok(false) if may_stand_in && step.has_copy(place()) => Ok(false),
        _ => step.warm(ground),
    }
}

/// The copies that exist in that case.
fn stand_ins(
    steps: &[Step],
    stores: &[Store],
    ground: &Ground,
    unprepared: &mut Unprepared,
) -> Vec<Showing> {
    let mut ready = Vec::new();
    for step in steps {
        match step.stand_in(stores, ground) {
            Ok((entry, warm)) => {
                if !warm {
                    unprepared.leave(&step.path, "its copy is not fully warm");
                }
                ready.push(Showing::of(step, &entry));
            }
            Err(failure) => unprepared.fail(&failure),
        }
    }
    ready
}
