//! Takes in what happens on the machine: starts, processor time, lists, and files that are replaced.

use std::collections::BTreeMap;
use std::io;

use hugetext_host::{Change, MappedFile, Pid, Sideband, running_nodes};
use hugetext_leaf::replica::Runners;

use super::{Daemon, DaemonError, Event, MOST_LOOKS, PAUSE, system};
use crate::catalog::{Key, Started};
use crate::fixed::Keeper;
use crate::text::{Look, Name};

impl Daemon<'_> {
    /// Takes in what processes did since the last time.
    pub(super) fn see(&mut self) -> Result<(), DaemonError> {
        let time = (self.now(), self.config.half_life());
        let (catalog, owners, losses) = (&mut self.catalog, &mut self.owners, &mut self.losses);
        let (looks, unread) = (&mut self.looks, &self.unread);
        let (starts, rushes) = (&mut self.tally.starts, &mut self.rushes);
        let runs = &mut self.runs;
        let mut changed = false;
        let mut last = None;
        let seen = self.sight.wait(PAUSE, &self.wake, |told| match told {
            Sideband::Fork { parent, child } => owners.fork(parent, child),
            Sideband::Exit { pid } => {
                owners.exit(pid);
                runs.ended(pid);
            }
            Sideband::Lost(records) => losses.records = losses.records.saturating_add(records),
            Sideband::Text { pid, file, path } => {
                // A file with two executable segments is mapped twice in a row.
                if last.replace((pid, file)) == Some((pid, file)) {
                    return;
                }
                *starts = starts.saturating_add(1);
                rushes.started(file.id, &path);
                let told = (file, path);
                let started = catalog.started(|| owners.of(pid), told, time);
                changed |= started != Started::Small;
                if runs.watches_any()
                    && let Some(key) = catalog.of_id(file.id)
                {
                    runs.started(pid, key);
                }
                let Started::Unread(key) = started else {
                    return;
                };
                let waits = unread.get(&key).is_some_and(|wait| wait.until > time.0);
                if !waits && looks.len() < MOST_LOOKS && !looks.iter().any(|look| look.key == key) {
                    let path = catalog.get(key).map(|known| known.path.clone());
                    let by = path.map(|path| Name::Mapped { pid, path, file });
                    looks.extend(by.map(|by| Look { key, by }));
                }
            }
        });
        seen.map_err(system("starts"))?;
        owners.settle(time.0);
        runs.settle(time.0);
        self.losses.starts = self.catalog.uncounted;
        self.evidence |= changed;
        Ok(())
    }

    /// Takes in who spent processor time.
    pub(super) fn sample(&mut self) {
        let time = (self.now(), self.config.half_life());
        let all = self.sampler.look().unwrap_or_default();
        self.losses.gave_up(self.sampler.take_given_up());
        if !all.is_empty() {
            self.promoter.forget_ended();
        }
        for spent in all {
            let by = self.owners.of(spent.pid);
            let mut keys = Vec::new();
            let runners = self.runners(spent.pid);
            for (text, seconds) in spent.text {
                let file = MappedFile {
                    id: text.file,
                    generation: 0,
                };
                let key = match self.catalog.of_id(text.file) {
                    Some(key) => key,
                    // It started before the daemon did.
                    None => match self.catalog.met(file, &text.path) {
                        Some(key) => key,
                        None => continue,
                    },
                };
                keys.push(key);
                self.catalog.ran(key, by, seconds, time);
                if let Some(runners) = &runners {
                    self.catalog.ran_on(key, runners, seconds, time);
                }
                let known = self.catalog.get(key);
                let is_new = known.is_some_and(|known| known.text.is_none());
                let waits = self
                    .unread
                    .get(&key)
                    .is_some_and(|wait| wait.until > time.0);
                if is_new && !waits {
                    let (pid, path) = (spent.pid, text.path);
                    self.want_look(key, Name::Mapped { pid, path, file });
                }
                self.evidence = true;
            }
            self.consider_promotion(spent.pid, by, &keys);
        }
    }

    /// The nodes that run a process; `None` on a machine of one node, and for a process that has ended.
    fn runners(&self, pid: Pid) -> Option<Runners> {
        let several = self.nodes.with_memory().len() > 1;
        let running = several.then(|| running_nodes(pid, &self.nodes).ok());
        Some(running.flatten()?.runners)
    }

    /// Takes in what the lists hold.
    pub(super) fn hear_lists(&mut self) {
        let Some(news) = self.keeper.as_mut().and_then(Keeper::news) else {
            return;
        };
        self.changed = true;
        match news {
            Err(error) => (self.tell)(Event::Problem(format!("lists: {error}"))),
            Ok(renewed) => {
                for error in renewed.unreadable {
                    (self.tell)(Event::Problem(error.to_string()));
                }
                let held = Some((renewed.report.locked, renewed.states));
                if self.listed != held {
                    self.listed = held;
                    (self.tell)(Event::Listed(renewed.report));
                }
            }
        }
    }

    /// Watches the directories of all files with text that are worth it or held.
    pub(super) fn watch(&mut self) {
        let mut watched = BTreeMap::new();
        for (key, known) in self.catalog.iter() {
            let Some(text) = &known.text else { continue };
            let wanted = self.choice.held.contains_key(&key) || self.holder.get(key).is_some();
            if let (true, Some(parent), Some(name)) = (
                wanted && !self.is_blamed(key),
                text.path.parent(),
                text.path.file_name(),
            ) {
                watched.insert((parent.to_owned(), name.to_owned()), key);
            }
        }
        self.watched = watched;
        let directories = self.watched.keys().map(|(parent, _)| parent.clone());
        self.watches.want(directories.collect(), self.now());
    }

    /// Looks again at what an upgrade may have replaced.
    pub(super) fn follow_changes(&mut self) -> io::Result<()> {
        for change in self.watches.changes()? {
            let keys: Vec<Key> = match change {
                Change::Name { directory, name } => self
                    .watched
                    .get(&(directory, name))
                    .copied()
                    .into_iter()
                    .collect(),
                Change::Unknown => self.watched.values().copied().collect(),
            };
            for key in keys {
                let text = self.catalog.get(key).and_then(|known| known.text.as_ref());
                if let Some(path) = text.map(|text| text.path.clone()) {
                    self.want_look(key, Name::Path(path));
                }
            }
        }
        Ok(())
    }
}
