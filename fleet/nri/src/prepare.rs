//! Carries out an order: asks containerd for the layers, looks for the files, and lets the engine do with each
//! what it does for `hugetext run`.

use std::cell::LazyCell;
use std::fmt::Display;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;

use hugetext_engine::prepare::{
    CopyUse, MemoryRoom, PrepareAction, PreparePolicy, PrepareStep, ReplicaAdvice, stores_on_disk,
};
use hugetext_engine::{Error, HostContext};
use hugetext_host::Nodes;
use hugetext_leaf::replica::{Replica, ReplicaChoice, choose_replica};
use hugetext_leaf::verdict::{LeafUse, LeavesDoHarm};

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
    /// Where the autopilot of the node says of which files several copies are worth it.
    pub(crate) autopilot: PathBuf,
    /// How text is to be mapped on this node. Whoever runs a file that is warm, or a copy of it, maps it by leaves.
    pub(crate) leaves: LeafUse,
}

impl Preparer {
    /// Carries out an order. What cannot be done is reported in `progress`.
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
        let in_layers = |paths: Vec<PathBuf>| -> Vec<InLayer> {
            let own = paths.into_iter().filter(|path| !order.covers(path));
            let found = own.filter_map(|path| {
                let file = layers.file(&path)?;
                Some(InLayer { path, file })
            });
            found.take(MOST).collect()
        };
        let (mut files, small) = (in_layers(seen.files), in_layers(seen.small));
        let replica = self.replica(order, files.iter().chain(&small), progress);
        // A copy divides the lock of small files too, and most of all theirs: libc and the loader.
        files.extend(small.into_iter().filter(|_| replica.is_some()));
        let mut room = match replica {
            Some(_) => MemoryRoom::of_replicas(),
            None => MemoryRoom::here(),
        };
        let policy = PreparePolicy {
            copies: if order.copies {
                CopyUse::IfNeeded
            } else {
                CopyUse::Never
            },
            replica,
            seen_through: layers.seen_through,
            ..PreparePolicy::ON_DISK
        };
        let copy = self.copier(&host, progress);
        let mut is_harmful = false;
        for InLayer { path, file } in files {
            let step = PrepareStep::of(&file, &host, policy);
            let step = step.map(|step| step.under(self.leaves).if_it_fits(&mut room));
            if step.as_ref().is_ok_and(PrepareStep::is_left_by_harm) {
                is_harmful = true;
                continue;
            }
            let prepared = step.and_then(|step| prepare(&step, path, &copy));
            progress.update(|done| match prepared {
                Ok(Prepared::Nothing) => {}
                Ok(Prepared::Warm) => done.warm += 1,
                Ok(Prepared::Copied(shown)) => done.shown.push(shown),
                Err(error) => done.problems.push(line(&error)),
            });
        }
        if is_harmful {
            let left = format!("its text is left as it is, because {LeavesDoHarm}");
            progress.update(|done| done.problems.push(left));
        }
        Ok(())
    }

    /// The copies that a container is to use, if it is to use any.
    fn replica<'f>(
        &self,
        order: &Order,
        files: impl Iterator<Item = &'f InLayer>,
        progress: &Progress,
    ) -> Option<Replica> {
        if !order.copies {
            return None;
        }
        let advised = || match ReplicaAdvice::read(&self.autopilot) {
            Ok(advice) => advice.choice(files.map(|found| found.file.as_path())),
            Err(error) => {
                let problem = format!("{}: {error}", self.autopilot.display());
                progress.update(|done| done.problems.push(problem));
                None
            }
        };
        // The same container gets the same copy each time; containers of one image differ.
        let draw = BuildHasherDefault::<DefaultHasher>::default().hash_one(&order.id);
        choose(order, &Nodes::this(), advised, draw as u32)
    }

    /// Makes or finds the copy of a file. The store is looked at once, for the first copy; what is wrong with it
    /// is reported in `progress`, and there are no copies then.
    fn copier(
        &self,
        host: &HostContext,
        progress: &Progress,
    ) -> impl Fn(&PrepareStep<'_>) -> Result<Option<PathBuf>, Error> {
        let stores = LazyCell::new(|| {
            let stores = stores_on_disk(Some(&self.store), host);
            stores.unwrap_or_else(|error| {
                progress.update(|done| done.problems.push(error.to_string()));
                Vec::new()
            })
        });
        move |step| match stores.as_slice() {
            [] => Ok(None),
            stores => step.stand_in(stores).map(|copy| Some(copy.entry.path)),
        }
    }
}

fn prepare(
    step: &PrepareStep<'_>,
    path: PathBuf,
    copy: impl Fn(&PrepareStep<'_>) -> Result<Option<PathBuf>, Error>,
) -> Result<Prepared, Error> {
    match step.action {
        PrepareAction::Leave { .. } => Ok(Prepared::Nothing),
        PrepareAction::Warm if step.warm()? => Ok(Prepared::Warm),
        PrepareAction::Warm => Ok(Prepared::Nothing),
        PrepareAction::Copy | PrepareAction::Fix => Ok(match copy(step)? {
            Some(copy) => Prepared::Copied(Shown { path, copy }),
            None => Prepared::Nothing,
        }),
    }
}

/// A file of the image.
#[derive(Debug)]
struct InLayer {
    /// As the container sees it.
    path: PathBuf,
    /// In the layer that holds it.
    file: PathBuf,
}

/// What became of a file.
#[derive(Debug)]
enum Prepared {
    Nothing,
    Warm,
    Copied(Shown),
}

/// The copies that a container is to use: those of the node to which it is pinned, on machines of several nodes;
/// otherwise those that the autopilot advises. `draw` tells containers apart.
fn choose(
    order: &Order,
    nodes: &Nodes,
    advised: impl FnOnce() -> Option<ReplicaChoice>,
    draw: u32,
) -> Option<Replica> {
    let runs_on = nodes.of_processors(&order.processors);
    let with_memory = nodes.with_memory();
    let own_node = || {
        let chosen = choose_replica(ReplicaChoice::OwnNode, &runs_on, &with_memory, draw);
        // A container that may run on several nodes has no node of its own.
        chosen.replica.filter(|_| chosen.note.is_none())
    };
    let pinned = (!runs_on.is_empty()).then(own_node).flatten();
    pinned.or_else(|| match advised()? {
        ReplicaChoice::OwnNode => None,
        several => choose_replica(several, &runs_on, &with_memory, draw).replica,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    use hugetext_engine::prepare::AdvisedFile;
    use hugetext_leaf::FileId;
    use hugetext_leaf::replica::ReplicaDecision;

    use super::*;

    fn preparer(autopilot: PathBuf) -> Preparer {
        Preparer {
            containerd: Containerd {
                socket: PathBuf::new(),
                namespace: String::new(),
                snapshotter: String::new(),
            },
            store: PathBuf::new(),
            autopilot,
            leaves: LeafUse::Leaves,
        }
    }

    /// The copies of 400 containers of one image.
    fn drawn(preparer: &Preparer, file: &Path, copies: bool) -> BTreeMap<Option<Replica>, usize> {
        let files = [InLayer {
            path: file.to_owned(),
            file: file.to_owned(),
        }];
        let mut drawn = BTreeMap::new();
        for number in 0..400 {
            let order = Order {
                copies,
                ..Order::for_node(&format!("container-{number}"))
            };
            let replica = preparer.replica(&order, files.iter(), &Progress::default());
            *drawn.entry(replica).or_default() += 1;
        }
        drawn
    }

    #[test]
    fn containers_of_one_image_are_spread_only_where_the_autopilot_advises_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libc.so.6");
        std::fs::write(&file, "x").unwrap();
        let preparer = preparer(directory.path().to_owned());
        let alone = BTreeMap::from([(None, 400)]);
        assert_eq!(drawn(&preparer, &file, true), alone, "no autopilot");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let advice = ReplicaAdvice {
            written: now.as_secs(),
            files: vec![AdvisedFile {
                file: FileId::of(&std::fs::metadata(&file).unwrap()),
                starts_per_second: 40_000,
                remote_per_mille: 0,
                decision: ReplicaDecision::PerGroup {
                    copies: 4,
                    bytes: 4 << 20,
                },
            }],
        };
        advice.write(directory.path()).unwrap();
        let spread = drawn(&preparer, &file, true);
        assert_eq!(spread.len(), 4, "{spread:?}");
        assert!(spread.values().all(|pods| *pods > 50), "{spread:?}");
        assert_eq!(drawn(&preparer, &file, false), alone, "no copies allowed");
        assert_eq!(
            drawn(&preparer, directory.path(), true),
            alone,
            "another file"
        );
    }

    #[test]
    fn a_store_that_cannot_be_used_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("file");
        std::fs::write(&store, "x").unwrap();
        let preparer = Preparer {
            store: store.clone(),
            ..preparer(PathBuf::new())
        };
        let host = HostContext::read(None).unwrap();
        let program = std::env::current_exe().unwrap();
        let step = PrepareStep::of(&program, &host, PreparePolicy::ON_DISK).unwrap();
        let progress = Progress::default();
        let copy = preparer.copier(&host, &progress);
        assert_eq!([copy(&step).unwrap(), copy(&step).unwrap()], [None, None]);
        progress.update(|done| {
            let [problem] = done.problems.as_slice() else {
                panic!("{:?}", done.problems);
            };
            assert!(problem.contains(store.to_str().unwrap()), "{problem}");
        });
    }
}
