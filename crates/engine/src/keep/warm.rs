//! Keeps everything listed warm.

use std::path::{Path, PathBuf};

use hugetext_leaf::verdict::{Deed, LeafUse, LeavesDoHarm};
use hugetext_loader::Environment;
use hugetext_store::Store;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::KeepList;
use crate::error::Error;
use crate::host_context::HostContext;
use crate::machine::leaf_use_here;
use crate::prepare::{PrepareAction, PreparePolicy, PrepareStep, Targets, stores_on_disk};
use crate::problem::Problem;

/// What keeping everything listed warm gave.
#[derive(Debug)]
pub struct KeepOutcome {
    /// The files with text that can be huge.
    pub files: Vec<KeptFile>,
    /// What could not be found or kept.
    pub problems: Vec<Problem>,
    /// Whether the lists name anything.
    pub anything_listed: bool,
}

/// A file that is kept warm.
#[derive(Debug, JsonSchema, Serialize)]
pub struct KeptFile {
    /// The file.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The warm file: the file itself, or the copy in the store that `run` shows in its place.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub warm: PathBuf,
    /// Bytes of text that are huge; 0 for text without windows, which is in the largest folios.
    pub huge: u64,
    /// Whether all windows are huge, or without windows, all text is in the largest folios.
    pub done: bool,
}

impl KeepOutcome {
    /// Whether everything listed was found and is fully warm.
    pub fn is_done(&self) -> bool {
        let found = !self.files.is_empty() || !self.anything_listed;
        found && self.problems.is_empty() && self.files.iter().all(|file| file.done)
    }
}

/// Warms everything listed. Copies are made in `store`, or else in the user's own store.
pub fn keep_warm(list: &KeepList, store: Option<&Path>) -> Result<KeepOutcome, Error> {
    let (names, unknown) = list.names();
    let host = HostContext::with_huge_pages()?;
    let environment = Environment::default();
    let mut targets = Targets::new(host.leaf, false, &environment);
    for name in &names {
        targets.add_named(name.as_ref());
    }
    let mut problems: Vec<Problem> = unknown.into_iter().map(Problem::line).collect();
    problems.append(&mut targets.problems);
    let mut keeper = Keeper {
        host: &host,
        named: store,
        stores: Vec::new(),
        leaves: leaf_use_here(Deed::Fill),
        is_any_left: false,
    };
    let mut files = Vec::new();
    for path in targets.files.iter().chain(&targets.small) {
        match keeper.keep(path) {
            Ok(kept) => files.extend(kept),
            Err(error) => problems.push((&error).into()),
        }
    }
    if keeper.is_any_left {
        problems.push(Problem::line(format!(
            "text is held in the folios that it lies in, because {LeavesDoHarm}"
        )));
    }
    Ok(KeepOutcome {
        files,
        problems,
        anything_listed: !names.is_empty(),
    })
}

/// Keeps one file after the other.
struct Keeper<'k> {
    host: &'k HostContext,
    named: Option<&'k Path>,
    /// The stores on disk, opened when the first copy is needed. Copies in memory would not outlive
    /// this process.
    stores: Vec<Store>,
    /// How text is to be mapped by whoever runs what is kept.
    leaves: LeafUse,
    /// Whether a file was left as it is because of that.
    is_any_left: bool,
}

impl Keeper<'_> {
    /// Warms one file, or the copy that `run` shows in its place; `None` if none of its text can be
    /// huge, unless it lies in the largest folios.
    fn keep(&mut self, path: &Path) -> Result<Option<KeptFile>, Error> {
        let step = PrepareStep::of(path, self.host, PreparePolicy::ON_DISK)?.under(self.leaves);
        let (warm, done) = match step.action {
            // Whoever holds it locks its text all the same.
            PrepareAction::Leave { .. } if step.is_left_by_harm() => {
                self.is_any_left = true;
                (step.path.clone(), false)
            }
            PrepareAction::Leave { .. } if !step.enlarge()? => return Ok(None),
            PrepareAction::Leave { .. } => (step.path.clone(), true),
            PrepareAction::Warm => (step.path.clone(), step.warm()?),
            PrepareAction::Copy | PrepareAction::Fix => {
                if self.stores.is_empty() {
                    self.stores = stores_on_disk(self.named, self.host)?;
                }
                let copy = step.stand_in(&self.stores)?;
                (copy.entry.path, copy.is_warm)
            }
        };
        Ok(Some(KeptFile {
            path: step.path,
            huge: step.after,
            warm,
            done,
        }))
    }
}
