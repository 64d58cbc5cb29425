//! What is known of files, and the looks at them. What may take long runs in threads that can be given up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hugetext_host::{Change, Done, FileState, MappedFile, Pid};
use hugetext_leaf::hold::{Costs, EvidenceTime, Principal};
use hugetext_leaf::replica::Runners;
use rustix::event::epoll::EventFlags;

use super::blame::BlamedUsers;
use super::journal::Journal;
use super::tally::count;
use super::terms::Terms;
use super::wake::Wake;
use crate::catalog::{Catalog, FileText, Key, MOST_FILES, Started};
use crate::owners::Groups;
use crate::text::{Look, Looked, Name, look};
use crate::watches::Watches;
use crate::work_queue::WorkQueue;

/// A look that takes longer is given up: headers are a few pages.
const LOOK: Duration = Duration::from_secs(5);
/// The most files that wait to be looked at.
const MOST_LOOKS: usize = 2 * MOST_FILES;

/// What is known of files, and what is being found out.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) catalog: Catalog,
    looks: WorkQueue<Look, Looked>,
    watches: Watches,
    /// The files whose directories are watched.
    watched: BTreeMap<(PathBuf, OsString), Key>,
    blamed: BlamedUsers,
}

/// What a look found out, for whoever holds the file.
#[derive(Debug)]
pub(super) enum LookNews {
    /// The file has another text than before.
    Replaced(Key),
    /// The text of the file is known, and this is its state.
    Known(Key, FileState),
    /// The file cannot be opened.
    Unreadable(Key),
    /// There is no such file any more.
    Gone(Key),
}

impl Files {
    /// Knows nothing yet. `wake` also ends for files that change.
    pub(super) fn new(wake: &Wake) -> io::Result<Files> {
        let handle: Arc<dyn Fn() + Send + Sync> = wake.handle();
        let watches = Watches::new(LOOK, Arc::clone(&handle))?;
        wake.add(&watches, EventFlags::IN)?;
        Ok(Files {
            catalog: Catalog::default(),
            looks: WorkQueue::new(MOST_LOOKS, LOOK, handle, look),
            watches,
            watched: BTreeMap::new(),
            blamed: BlamedUsers::default(),
        })
    }

    /// The text of a file, if it is known.
    pub(super) fn text(&self, key: Key) -> Option<&FileText> {
        self.catalog.get(key)?.text.as_ref()
    }

    /// A process mapped the text of a file.
    pub(super) fn started(
        &mut self,
        by: impl FnOnce() -> Principal,
        pid: Pid,
        (file, path): (MappedFile, PathBuf),
        moment: EvidenceTime,
    ) -> Started {
        let started = self.catalog.started(by, (file, path), moment);
        if let Started::Unread(key) = started
            && self.may_look(key, moment.now)
            && let Some(known) = self.catalog.get(key)
        {
            let path = known.path.clone();
            let by = Name::Mapped { pid, path, file };
            self.looks.add(Look { key, by });
        }
        started
    }

    /// A process spent seconds in the text of a file, on these nodes. Returns the file, unless nothing of it can be
    /// held.
    pub(super) fn ran(
        &mut self,
        name: Name,
        by: Principal,
        (seconds, runners): (f64, Option<&Runners>),
        moment: EvidenceTime,
    ) -> Option<Key> {
        let Name::Mapped { path, file, .. } = &name else {
            return None;
        };
        let known = self.catalog.of_id(file.id);
        // It started before the daemon did.
        let key = known.or_else(|| self.catalog.met(*file, path))?;
        self.catalog.ran(key, by, seconds, moment);
        if let Some(runners) = runners {
            self.catalog.ran_on(key, runners, seconds, moment);
        }
        if self.text(key).is_none() && self.may_look(key, moment.now) {
            self.want_look(key, name);
        }
        Some(key)
    }

    /// Whether a look at a file can begin to wait: there is room, none waits, and none failed a short time ago.
    fn may_look(&self, key: Key, now: Duration) -> bool {
        let looks = &self.looks;
        looks.has_room() && !looks.is_delayed(&key, now) && !looks.is_waiting(&key)
    }

    pub(super) fn want_look(&mut self, key: Key, by: Name) {
        self.looks.add(Look { key, by });
    }

    /// Begins the next look.
    pub(super) fn begin(&mut self) {
        let (catalog, blamed) = (&self.catalog, &self.blamed);
        self.looks
            .begin(|look| !blamed.are_all_of(users(catalog, look.key)));
    }

    /// Takes in what has ended, and begins the next at once. `lost` says how many threads others wait for.
    pub(super) fn finish(
        &mut self,
        terms: &Terms,
        lost: usize,
        journal: &mut Journal<'_>,
    ) -> Vec<LookNews> {
        // Nobody is blamed any more once all threads have ended that were given up.
        if self.looks.lost() == 0 && self.watches.lost() == 0 && lost == 0 {
            self.blamed = BlamedUsers::default();
        }
        let asked = self.watches.finish(terms.now());
        for directory in &asked.given_up {
            self.no_answer_of_directory(directory, journal);
        }
        // A file of theirs may have been replaced between the last look at it and now.
        for directory in asked.begun {
            self.look_again(|of| *of == directory);
        }
        let mut news = Vec::new();
        while let Some((look, done)) = self.looks.finish() {
            match done {
                Done::Result(looked) => self.looked(looked, terms, journal, &mut news),
                Done::GivenUp => {
                    self.no_answer(look.key, journal);
                    self.delay(look.key, terms, journal);
                }
            }
            self.begin();
        }
        news
    }

    fn looked(
        &mut self,
        looked: Looked,
        terms: &Terms,
        journal: &mut Journal<'_>,
        news: &mut Vec<LookNews>,
    ) {
        let key = looked.key;
        match looked.found {
            Ok((file, text)) => {
                self.looks.forget(&key);
                let before = self.text(key).map(|text| text.state);
                let after = text.as_ref().map(|text| text.state);
                if before.is_some() && before != after {
                    news.push(LookNews::Replaced(key));
                }
                let known = self.catalog.identified(key, file, text, terms.moment());
                // Under another number, it may have replaced a file that is held.
                let known = known.zip(after);
                news.extend(known.map(|(known, state)| LookNews::Known(known, state)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && looked.by_path => {
                self.catalog.remove(key);
                news.push(LookNews::Gone(key));
            }
            Err(_) => {
                // What was seen of it stays: it may be readable again.
                self.delay(key, terms, journal);
                news.push(LookNews::Unreadable(key));
            }
        }
    }

    fn delay(&mut self, key: Key, terms: &Terms, journal: &mut Journal<'_>) {
        count(&mut journal.tally.unread);
        self.looks.delay(key, terms.now());
        if let Some(forgotten) = self.catalog.failed(key) {
            self.looks.forget(&forgotten);
        }
    }

    /// Counts a file that did not answer in time, and blames those who run it.
    pub(super) fn no_answer(&mut self, key: Key, journal: &mut Journal<'_>) {
        journal.losses.gave_up(1);
        self.blamed.blame(users(&self.catalog, key));
    }

    /// Counts a directory that did not answer in time, and blames those who run files of it.
    fn no_answer_of_directory(&mut self, directory: &Path, journal: &mut Journal<'_>) {
        journal.losses.gave_up(1);
        let inside = self.watched.iter().filter(|((of, _), _)| of == directory);
        for key in inside.map(|(_, key)| *key) {
            self.blamed.blame(users(&self.catalog, key));
        }
    }

    /// Whether nobody runs a file but users who are blamed.
    pub(super) fn is_blamed(&self, key: Key) -> bool {
        self.blamed.are_all_of(users(&self.catalog, key))
    }

    /// Watches the directories of all files with text that are `wanted`.
    pub(super) fn watch(&mut self, wanted: impl Fn(Key) -> bool, now: Duration) {
        let mut watched = BTreeMap::new();
        for (key, known) in self.catalog.iter() {
            let Some(text) = &known.text else { continue };
            if wanted(key)
                && !self.is_blamed(key)
                && let Some(parent) = text.path.parent()
                && let Some(name) = text.path.file_name()
            {
                watched.insert((parent.to_owned(), name.to_owned()), key);
            }
        }
        self.watched = watched;
        let directories = self.watched.keys().map(|(parent, _)| parent.clone());
        self.watches.want(directories.collect(), now);
    }

    /// Looks again at what an upgrade may have replaced.
    pub(super) fn follow_changes(&mut self) -> io::Result<()> {
        for change in self.watches.changes()? {
            match change {
                Change::Name { directory, name } => {
                    let key = self.watched.get(&(directory, name));
                    self.look_at_paths(key.copied().into_iter().collect());
                }
                Change::Unknown => self.look_again(|_| true),
            }
        }
        Ok(())
    }

    /// Looks again at the files that are watched in these directories.
    fn look_again(&mut self, is_of: impl Fn(&PathBuf) -> bool) {
        let inside = self.watched.iter().filter(|((of, _), _)| is_of(of));
        self.look_at_paths(inside.map(|(_, key)| *key).collect());
    }

    fn look_at_paths(&mut self, keys: Vec<Key>) {
        for key in keys {
            if let Some(path) = self.text(key).map(|text| text.path.clone()) {
                self.want_look(key, Name::Path(path));
            }
        }
    }

    /// Forgets these files.
    pub(super) fn remove(&mut self, keys: &[Key]) {
        for key in keys {
            self.catalog.remove(*key);
        }
    }

    /// Forgets what was seen too long ago, as [`Catalog::forget`].
    pub(super) fn forget(
        &mut self,
        costs: &Costs,
        moment: EvidenceTime,
        held: &BTreeSet<Key>,
        groups: &mut Groups,
    ) {
        self.catalog.forget(costs, moment, held, groups);
        let catalog = &self.catalog;
        self.looks.retain(|key| catalog.get(*key).is_some());
    }
}

/// The users who run a file.
fn users(catalog: &Catalog, key: Key) -> impl Iterator<Item = u32> + '_ {
    let known = catalog.get(key).into_iter();
    known.flat_map(|known| known.by.keys().map(|by| by.user))
}
