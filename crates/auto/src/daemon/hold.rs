//! Fills files, holds and releases them. What may take long runs in a thread that can be given up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hugetext_engine::HeldText;
use hugetext_host::{Done, Pid, is_memory_limited};
use hugetext_leaf::hold::{Candidate, Refusal, give_up};

use super::decision::Decision;
use super::files::{Files, LookNews};
use super::journal::Journal;
use super::let_go::LetGo;
use super::room::Room;
use super::tally::count;
use super::terms::Terms;
use crate::catalog::{Key, Known, MOST_FILES};
use crate::charge::Lockable;
use crate::config::Mode;
use crate::holder::Holder;
use crate::owners::Groups;
use crate::reason::{Exclusion, Hindrance};
use crate::runs::Runs;
use crate::text::{Fill, Filled, Name, fill};
use crate::work_queue::WorkQueue;

/// A fill that takes longer is given up: at 10 MB/s, 600 MB.
const FILL: Duration = Duration::from_secs(60);

/// What is held of what was seen, and what is being filled.
#[derive(Debug)]
pub(super) struct Hold {
    holder: Holder,
    fills: WorkQueue<Fill, Result<Filled, Hindrance>>,
    /// Who runs the files that were in use when they should have been made huge.
    runs: Runs,
    /// Whether something was filled or released, so that there is something to decide.
    changed: bool,
}

/// The directory in /proc of the process through which a file was opened.
fn of_process(path: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix("/proc").ok()?;
    Some(Path::new("/proc").join(inside.components().next()?))
}

impl Hold {
    /// Holds nothing yet; calls `wake` when a fill has ended.
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Hold {
        Hold {
            holder: Holder::default(),
            fills: WorkQueue::new(MOST_FILES, FILL, wake, fill),
            runs: Runs::default(),
            changed: false,
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.holder.bytes()
    }

    /// Files held.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        self.holder.keys()
    }

    /// What is held of a file.
    pub(super) fn get(&self, key: Key) -> Option<&Filled> {
        self.holder.get(key)
    }

    /// Until when a file waits that was tried before, and why.
    pub(super) fn hindrance(&self, key: Key) -> Option<(Duration, &Hindrance)> {
        self.holder.hindrance(key)
    }

    /// Threads of fills that were given up and have not ended.
    pub(super) fn lost(&self) -> usize {
        self.fills.lost()
    }

    /// A process has begun to run a file.
    pub(super) fn started(&mut self, pid: Pid, key: impl FnOnce() -> Option<Key>) {
        if self.runs.watches_any()
            && let Some(key) = key()
        {
            self.runs.started(pid, key);
        }
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, pid: Pid) {
        self.runs.ended(pid);
    }

    /// All starts and ends of a moment were told.
    pub(super) fn settle(&mut self, now: Duration) {
        self.runs.settle(now);
    }

    /// Whether something was filled or released since this was asked.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether something that waits until nobody runs it can be tried again.
    pub(super) fn has_idle(&self, now: Duration) -> bool {
        self.holder.may_retry(now) && !self.runs.idle(now).is_empty()
    }

    /// Gives up what a look found changed.
    pub(super) fn follow(&mut self, news: &LookNews, journal: &mut Journal<'_>) {
        match *news {
            LookNews::Replaced(key) => self.replaced(key, journal),
            LookNews::Known(key, state) => {
                let held = self.holder.get(key);
                if held.is_some_and(|held| held.state != state) {
                    self.replaced(key, journal);
                }
            }
            LookNews::Unreadable(key) => self.release(key, LetGo::Gone, journal),
            LookNews::Gone(key) => {
                self.release(key, LetGo::Gone, journal);
                self.holder.forget(key);
            }
        }
    }

    /// A file is another one by now.
    fn replaced(&mut self, key: Key, journal: &mut Journal<'_>) {
        self.release(key, LetGo::Replaced, journal);
        self.holder.forget(key);
    }

    fn release(&mut self, key: Key, why: LetGo, journal: &mut Journal<'_>) {
        self.runs.forget(key);
        if let Some((path, bytes)) = self.holder.release(key) {
            journal.released(path, bytes, why);
            self.changed = true;
        }
    }

    /// Gives up the files of containers that were opened through a process which has ended: they keep its mounts.
    /// Returns these files.
    pub(super) fn release_ended(&mut self, files: &Files, journal: &mut Journal<'_>) -> Vec<Key> {
        let has_ended = |key: &Key| {
            let text = files.text(*key);
            let process = text.and_then(|text| of_process(&text.path));
            process.is_some_and(|process| !process.exists())
        };
        let ended: Vec<Key> = self.holder.keys().into_iter().filter(has_ended).collect();
        for key in &ended {
            self.release(*key, LetGo::Gone, journal);
            self.holder.forget(*key);
        }
        ended
    }

    /// Gives up what is no longer chosen.
    pub(super) fn release_refused(
        &mut self,
        decision: &Decision,
        (terms, files, room): (&Terms, &Files, &Room),
        journal: &mut Journal<'_>,
    ) {
        let keeps = terms.mode() == Mode::Act;
        for key in self.holder.keys() {
            if keeps && decision.holds(key) {
                continue;
            }
            let why = match decision.choice.refused.get(&key) {
                _ if !keeps => LetGo::Observes,
                Some(Refusal::NotWorthIt) => LetGo::NotWorthIt,
                Some(Refusal::NoRoom) => LetGo::NoRoom,
                Some(Refusal::TooLarge) => LetGo::TooLarge(room.shortage(files.text(key))),
                None => match decision.excluded.get(&key) {
                    Some(exclusion) => LetGo::Excluded(*exclusion),
                    // It was forgotten, because too much is remembered.
                    None => LetGo::Excluded(Exclusion::NotRun),
                },
            };
            self.release(key, why, journal);
        }
    }

    /// Fills nothing more for now, and gives up what is more than `allowed`, least valuable first.
    pub(super) fn give_up(
        &mut self,
        candidates: &[Candidate<Key>],
        allowed: u64,
        why: LetGo,
        journal: &mut Journal<'_>,
    ) {
        self.drop_plans();
        let held = self.holder.keys();
        let held: Vec<Candidate<Key>> = candidates
            .iter()
            .filter(|candidate| held.contains(&candidate.key))
            .cloned()
            .collect();
        for key in give_up(&held, allowed) {
            self.release(key, why, journal);
        }
    }

    /// Fills nothing more for now.
    pub(super) fn drop_plans(&mut self) {
        self.fills.clear();
    }

    /// Plans to fill what was chosen, most valuable first, as far as it is not held and may be tried.
    pub(super) fn plan(&mut self, chosen: Vec<Key>, files: &Files, groups: &Groups, now: Duration) {
        let filling = self.filling();
        let mut plans = Vec::new();
        for key in chosen {
            if let Some(text) = files.text(key)
                && filling != Some(key)
                && !files.is_blamed(key)
                && self
                    .holder
                    .wants(key, text, now, self.runs.is_idle(key, now))
            {
                plans.push(Fill {
                    key,
                    text: text.clone(),
                    lockable: self.lockable(files.catalog.get(key), key, groups),
                });
            }
        }
        self.fills.replace(plans);
    }

    fn filling(&self) -> Option<Key> {
        self.fills.running().map(|fill| fill.key)
    }

    /// A file that is idle, and need not be filled, waits for its next end.
    pub(super) fn watch_idle(&mut self, now: Duration) {
        let filling = self.filling();
        for key in self.runs.idle(now) {
            if !self.fills.is_waiting(&key) && filling != Some(key) {
                self.runs.watch(key);
            }
        }
    }

    /// What of a file may be locked: a control group with a memory limit that runs it may pay for what is huge
    /// already.
    fn lockable(&self, known: Option<&Known>, key: Key, groups: &Groups) -> Lockable {
        let of: BTreeSet<u64> = known.into_iter().flat_map(Known::groups).collect();
        let names = of.iter().map(|group| groups.name(*group));
        match is_memory_limited(names) {
            Ok(false) => Lockable::All,
            // What cannot be read may be limited.
            Ok(true) | Err(_) => {
                let held = self.holder.get(key).and_then(|filled| filled.held.as_ref());
                Lockable::Own(held.into_iter().flat_map(HeldText::ranges).collect())
            }
        }
    }

    /// The control groups that run what is held.
    pub(super) fn groups(&self, files: &Files) -> BTreeSet<u64> {
        let held = self.holder.keys();
        let held = held.iter().filter_map(|key| files.catalog.get(*key));
        held.flat_map(Known::groups).collect()
    }

    /// Begins the next fill.
    pub(super) fn begin(&mut self, now: Duration) {
        let holder = &self.holder;
        let waits = |key| holder.wait(key).is_some() && !holder.may_retry(now);
        self.fills.begin(|fill| !waits(fill.key));
    }

    /// Takes in what has ended, and begins the next at once.
    pub(super) fn finish(
        &mut self,
        decision: &Decision,
        (terms, files): (&Terms, &mut Files),
        journal: &mut Journal<'_>,
    ) {
        while let Some((fill, done)) = self.fills.finish() {
            let (key, path) = (fill.key, fill.text.path);
            match done {
                Done::Result(Ok(filled)) => {
                    self.filled(filled, decision, (terms, files), journal);
                }
                Done::Result(Err(problem)) => {
                    count(&mut journal.tally.unfilled);
                    self.runs.forget(key);
                    self.holder.delay(key, problem, terms.now());
                    // It may be another file by now.
                    files.want_look(key, Name::Path(path));
                }
                Done::GivenUp => {
                    files.no_answer(key, journal);
                    self.runs.forget(key);
                    let why = Hindrance::NoAnswer;
                    journal.problem(format!("{}: {why}", path.display()));
                    self.holder.delay(key, why, terms.now());
                }
            }
            self.changed = true;
            files.begin();
            self.begin(terms.now());
        }
    }

    fn filled(
        &mut self,
        filled: Filled,
        decision: &Decision,
        (terms, files): (&Terms, &Files),
        journal: &mut Journal<'_>,
    ) {
        let key = filled.key;
        let text = files.text(key);
        let is_same = text.is_some_and(|text| text.state == filled.state);
        let is_wanted = terms.mode() == Mode::Act && decision.holds(key) && is_same;
        if is_wanted && filled.is_in_use {
            self.runs.watch(key);
        } else {
            self.runs.forget(key);
        }
        if !is_wanted {
            // Pressure, a reload or an upgrade came first: what was locked is dropped here.
            return;
        }
        let is_new = self.holder.get(key).is_none();
        if let Some(held) = filled.held.as_ref().filter(|_| is_new) {
            journal.held(filled.path.clone(), held.bytes(), decision.place(key));
        }
        self.holder.take(filled, terms.now());
    }
}
