//! Sees what happens on the machine: starts and processor time.

use std::io;
use std::time::Duration;

use hugetext_host::{MappedFile, Nodes, Pid, Sideband, running_nodes};
use hugetext_leaf::hold::Principal;
use hugetext_leaf::replica::Runners;

use super::files::Files;
use super::hold::Hold;
use super::journal::Journal;
use super::tally::count;
use super::terms::Terms;
use super::wake::Wake;
use crate::catalog::{Key, Started};
use crate::owners::Owners;
use crate::processor::Sampler;
use crate::rush::Rushes;
use crate::sight::{Sight, SourceName};
use crate::text::Name;

/// The longest wait for the next start. The kernel wakes the daemon earlier if many come.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a source of starts is not used.
pub(super) fn refusal(name: SourceName, error: &io::Error) -> String {
    let remedy = match (name, error.kind()) {
        (SourceName::Records, io::ErrorKind::PermissionDenied) => {
            "; it takes CAP_PERFMON, and where kernel.perf_event_paranoid is above 2, CAP_SYS_ADMIN"
        }
        _ => "",
    };
    format!("no {name:?}: {error}{remedy}")
}

/// Where the daemon learns what the machine does.
#[derive(Debug)]
pub(super) struct Sources {
    sight: Sight,
    sampler: Sampler,
    pub(super) nodes: Nodes,
    pub(super) owners: Owners,
    pub(super) rushes: Rushes,
}

/// A process that spent processor time in text.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) pid: Pid,
    pub(super) by: Principal,
    pub(super) text: Vec<Key>,
}

impl Sources {
    /// Sees starts by `sight`.
    pub(super) fn new(sight: Sight) -> Sources {
        Sources {
            sight,
            sampler: Sampler::new(),
            nodes: Nodes::this(),
            owners: Owners::default(),
            rushes: Rushes::default(),
        }
    }

    /// How it sees starts.
    pub(super) fn name(&self) -> SourceName {
        self.sight.name()
    }

    /// Waits for what processes do, and hands it on: to what is known of files, and of who runs them. Returns whether
    /// more is known than before.
    pub(super) fn see(
        &mut self,
        terms: &Terms,
        wake: &Wake,
        (files, hold): (&mut Files, &mut Hold),
        journal: &mut Journal<'_>,
    ) -> io::Result<bool> {
        let moment = terms.moment();
        let (owners, rushes) = (&mut self.owners, &mut self.rushes);
        let mut is_evidence = false;
        let mut last = None;
        self.sight.wait(PAUSE, wake, |told| match told {
            Sideband::Fork { parent, child } => owners.fork(parent, child),
            Sideband::Exit { pid } => {
                owners.exit(pid);
                hold.ended(pid);
            }
            Sideband::Lost(records) => {
                let lost = &mut journal.losses.records;
                *lost = lost.saturating_add(records);
            }
            Sideband::Text { pid, file, path } => {
                // A file with two executable segments is mapped twice in a row.
                if last.replace((pid, file)) == Some((pid, file)) {
                    return;
                }
                count(&mut journal.tally.starts);
                rushes.started(file.id, &path);
                let started = files.started(|| owners.of(pid), pid, (file, path), moment);
                is_evidence |= started != Started::Small;
                hold.started(pid, || files.catalog.of_id(file.id));
            }
        })?;
        self.owners.settle(moment.now);
        hold.settle(moment.now);
        journal.losses.starts = files.catalog.uncounted;
        Ok(is_evidence)
    }

    /// Sees who spent processor time, and hands it on to what is known of files.
    pub(super) fn sample(
        &mut self,
        terms: &Terms,
        files: &mut Files,
        journal: &mut Journal<'_>,
    ) -> Vec<Ran> {
        let moment = terms.moment();
        let spent = self.sampler.look().unwrap_or_default();
        journal.losses.gave_up(self.sampler.take_given_up());
        let mut all = Vec::new();
        for spent in spent {
            let by = self.owners.of(spent.pid);
            let runners = self.runners(spent.pid);
            let mut text = Vec::new();
            for (mapped, seconds) in spent.text {
                let file = MappedFile {
                    id: mapped.file,
                    generation: 0,
                };
                let (pid, path) = (spent.pid, mapped.path);
                let name = Name::Mapped { pid, path, file };
                text.extend(files.ran(name, by, (seconds, runners.as_ref()), moment));
            }
            let pid = spent.pid;
            all.push(Ran { pid, by, text });
        }
        all
    }

    /// The nodes that run a process; `None` on a machine of one node, and for a process that has ended.
    fn runners(&self, pid: Pid) -> Option<Runners> {
        let several = self.nodes.with_memory().len() > 1;
        let running = several.then(|| running_nodes(pid, &self.nodes).ok());
        Some(running.flatten()?.runners)
    }

    /// Ends a second of counted starts, if one has passed.
    pub(super) fn count_rushes(&mut self, terms: &Terms) {
        let moment = terms.moment();
        // Below half of what one copy serves, a file is far from a second one.
        let least = terms.config.replicas.starts_per_copy.get().div_ceil(2);
        self.rushes.settle(moment, least);
    }
}
