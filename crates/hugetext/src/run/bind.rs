//! Making ready what the steps ask for, and showing it in the place of the originals.

use std::cell::OnceCell;
use std::path::Path;

use hugetext_host::{
    DEFAULT_LIMIT, Entry, Mountable, Store, enter_mount_namespace, mount_huge_tmpfs,
};

use crate::failure::{Failure, plain};
use crate::run::place::{Place, choose};
use crate::run::prepare::{Action, Reason, Step};
use crate::run::{Backend, Options, Unprepared};
use crate::warm::Ground;

/// Warms, fixes and binds. This process may be in a mount namespace of its own afterwards. What
/// cannot be done is added to `unprepared`.
pub(crate) fn make_ready(
    mut steps: Vec<Step>,
    options: &Options,
    ground: &Ground,
    unprepared: &mut Unprepared,
) {
    leave_out(&steps, unprepared);
    let place = OnceCell::new();
    let choose = || choose(options, ground);
    for step in steps.iter_mut().filter(|step| step.action == Action::Warm) {
        let may_stand_in = options.backend != Backend::None && step.may_stand_in;
        match warm_unless_copied(step, may_stand_in, ground, || place.get_or_init(choose)) {
            Ok(true) => {}
            Ok(false) if may_stand_in => step.action = Action::Copy,
            Ok(false) => unprepared.leave(&step.path, "not all warm: other processes use it"),
            Err(failure) => unprepared.fail(&failure),
        }
    }
    steps.retain(Step::needs_store);
    if steps.is_empty() {
        return;
    }
    let place = place.into_inner().unwrap_or_else(choose);
    let shown = place.and_then(|place| match place {
        Place::Stores(stores) => {
            let ready = stand_ins(&steps, &stores, ground, unprepared);
            enter()?;
            Ok(ready)
        }
        Place::Private(directory) => {
            enter()?;
            let (store, ground) = private_store(&directory)?;
            Ok(stand_ins(&steps, &[store], &ground, unprepared))
        }
    });
    match shown {
        Ok(ready) => {
            for (step, entry) in ready {
                if let Err(failure) = show(step, &entry) {
                    unprepared.fail(&failure);
                }
            }
        }
        Err(failure) => {
            unprepared.fail(&failure);
            for step in &steps {
                // Better than nothing: the windows that the file has as it is.
                let _ = step.warm(ground);
            }
        }
    }
}

/// Tells of the files that are left by decision, but for those that have nothing to gain.
fn leave_out(steps: &[Step], unprepared: &mut Unprepared) {
    for step in steps {
        match step.action {
            Action::Leave { why: Reason::Small } => {}
            Action::Leave { why } => unprepared.leave(&step.path, why),
            Action::Warm | Action::Copy | Action::Fix => {}
        }
    }
}

/// Warms a file in place; whether all of it is warm then. Not tried where a copy is at hand: it was
/// made when others mapped the file in small folios, which cannot be dropped while they do, and to
/// try that again would take longer than most starts.
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

fn stand_ins<'s>(
    steps: &'s [Step],
    stores: &[Store],
    ground: &Ground,
    unprepared: &mut Unprepared,
) -> Vec<(&'s Step, Entry)> {
    let mut ready = Vec::new();
    for step in steps {
        match step.stand_in(stores, ground) {
            Ok((entry, warm)) => {
                if !warm {
                    unprepared.leave(&step.path, "the copy that takes its place is not all warm");
                }
                ready.push((step, entry));
            }
            Err(failure) => unprepared.fail(&failure),
        }
    }
    ready
}

fn enter() -> Result<(), Failure> {
    enter_mount_namespace().map(drop).map_err(|error| {
        let problem = format!("no mount namespace: {}", plain(&error));
        Failure::new("run", problem).remedy("files are only warmed in place")
    })
}

fn private_store(directory: &Path) -> Result<(Store, Ground), Failure> {
    mount_huge_tmpfs(directory, DEFAULT_LIMIT)
        .map_err(|error| Failure::at(directory, format!("no tmpfs: {}", plain(&error))))?;
    let store = Store::in_private_mount(directory);
    let store = store.map_err(|error| Failure::new("store", error))?;
    Ok((store, Ground::this()?))
}

/// Mounts an entry over the file it was made from, if both are still what was looked at.
fn show(step: &Step, entry: &Entry) -> Result<(), Failure> {
    let path = &step.path;
    let failed = |error: std::io::Error| Failure::at(path, plain(&error));
    let original = Mountable::open(path).map_err(failed)?;
    let stand_in = Mountable::open(&entry.path).map_err(failed)?;
    if !original.is(step.inode) || !stand_in.is(entry.inode) {
        return Err(Failure::at(path, "replaced meanwhile, so it runs as it is"));
    }
    stand_in.mount_over(&original).map_err(failed)
}
