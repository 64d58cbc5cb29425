//! Carries out an order: asks containerd for the layers, looks for the files, and lets the engine do with each
//! what it does for `hugetext run`.

use std::fmt::Display;
use std::path::PathBuf;

use hugetext_engine::HostContext;
use hugetext_engine::prepare::{
    CopyUse, MemoryRoom, PrepareAction, PreparePolicy, PrepareStep, stores_on_disk,
};
use hugetext_host::Nodes;
use hugetext_leaf::replica::{Replica, ReplicaWish, choose_replica};

use crate::containerd::Containerd;
use crate::decide::{Order, Shown};
use crate::look::{self, Look};
use crate::work::Progress;

/// Files of one container that are prepared at most. A program seldom has three of such a size.
const MOST: usize = 64;

/// What orders are carried out with.
#[derive(Debug)]
pub(crate) struct Preparer {
    /// Who knows the layers.
    pub(crate) containerd: Containerd,
    /// Where copies lie. The runtime sees them at the same path.
    pub(crate) store: PathBuf,
}

impl Preparer {
    /// Carries out an order. What cannot be done is told in `progress`.
    pub(crate) fn carry_out(&self, order: &Order, progress: &Progress) {
        if let Err(problem) = self.files(order, progress) {
            progress.update(|done| done.problems.push(problem));
        }
    }

    fn files(&self, order: &Order, progress: &Progress) -> Result<(), String> {
        let line = |error: &dyn Display| error.to_string();
        let layers = self.containerd.layers(&order.id);
        let layers = layers.map_err(|error| line(&error))?;
        let look = Look {
            layers: layers.directories.clone(),
            names: order.names.clone(),
            library_path: order.library_path.clone(),
            preload: order.preload.clone(),
        };
        let seen = look::ask(&look, order.path.as_deref()).map_err(|error| line(&error))?;
        let host = HostContext::with_huge_pages().map_err(|error| line(&error))?;
        let mut room = MemoryRoom::here();
        let policy = PreparePolicy {
            copies: if order.copies {
                CopyUse::IfNeeded
            } else {
                CopyUse::Never
            },
            replica: replica(order),
            seen_through: layers.seen_through,
            ..PreparePolicy::ON_DISK
        };
        let is_own = |path: &PathBuf| !order.covers(path);
        for path in seen.into_iter().filter(is_own).take(MOST) {
            let Some(file) = layers.file(&path) else {
                continue;
            };
            let step = PrepareStep::of(&file, &host, policy);
            let step = step.map(|step| step.if_it_fits(&mut room));
            let prepared = step.and_then(|step| self.prepare(&step, path, &host));
            progress.update(|done| match prepared {
                Ok(Prepared::Nothing) => {}
                Ok(Prepared::Warm) => done.warm += 1,
                Ok(Prepared::Copied(shown)) => done.shown.push(shown),
                Err(error) => done.problems.push(line(&error)),
            });
        }
        Ok(())
    }

    fn prepare(
        &self,
        step: &PrepareStep<'_>,
        path: PathBuf,
        host: &HostContext,
    ) -> Result<Prepared, hugetext_engine::Error> {
        match step.action {
            PrepareAction::Leave { .. } => Ok(Prepared::Nothing),
            PrepareAction::Warm if step.warm()? => Ok(Prepared::Warm),
            PrepareAction::Warm => Ok(Prepared::Nothing),
            PrepareAction::Copy | PrepareAction::Fix => {
                let stores = stores_on_disk(Some(&self.store), host)?;
                let copy = step.stand_in(&stores)?.entry.path;
                Ok(Prepared::Copied(Shown { path, copy }))
            }
        }
    }
}

/// What became of a file.
#[derive(Debug)]
enum Prepared {
    Nothing,
    Warm,
    Copied(Shown),
}

/// The copies of the node to which the container is pinned, on machines of several nodes.
fn replica(order: &Order) -> Option<Replica> {
    if !order.copies || order.processors.is_empty() {
        return None;
    }
    let nodes = Nodes::this();
    let runs_on = nodes.of_processors(&order.processors);
    let chosen = choose_replica(ReplicaWish::OwnNode, &runs_on, &nodes.with_memory(), 0);
    // A container that may run on several nodes has no node of its own.
    chosen.replica.filter(|_| chosen.note.is_none())
}
