//! What is known of the text that this machine executes.

mod forget;
mod record;
mod remember;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use hugetext_host::{FileState, MappedFile};
use hugetext_leaf::hold::{
    Candidate, Claim, Costs, Decayed, Evidence, EvidenceTime, Gain, Level, Principal, Worth,
};
use hugetext_leaf::replica::{Node, Runners};
use hugetext_leaf::{FileId, Leaf, Span};

use crate::reason::Exclusion;

pub(crate) use record::Record;
#[cfg(test)]
pub(crate) use record::Share;

/// The number of a file, in the order in which files were seen.
pub(crate) type Key = u64;

/// The most files that are remembered with their evidence.
pub(crate) const MOST_FILES: usize = 4096;
/// The most principals that are remembered for one file.
const MOST_PRINCIPALS: usize = 32;
/// The most files that are known to hold nothing huge; beyond, they are looked at again.
const MOST_SMALL: usize = 65_536;
/// The most pairs of numbers that are remembered for one file.
const MOST_IDS: usize = 64;
/// The device of files that were remembered and not looked at since; no file lies there.
const REMEMBERED: u64 = 0;
/// The most files that wait to be looked at.
const MOST_UNREAD: usize = 512;
/// The most files that are remembered although they could not be looked at.
const MOST_UNREADABLE: usize = 512;

/// The share of its text that a process touches when it starts, where nothing better is known: docs/auto.md
/// has what programs of a build touch.
const TOUCHED: f64 = 0.5;

/// The text of a file that can be huge, or at least in larger folios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// Where this machine can open it: for a file of a container, in the layer that it comes from.
    pub path: PathBuf,
    /// The largest leaf of this machine.
    pub leaf: Leaf,
    /// What those who run it gain.
    pub gain: Gain,
    /// The windows, as ranges of the file; without windows, the text in whole pages.
    pub ranges: Vec<Span>,
    /// Why its filesystem cannot hold huge folios; `None` if it can.
    pub obstacle: Option<String>,
    /// Whether its filesystem stays mounted while the machine runs: held text keeps it busy.
    pub stays: bool,
    /// The file as it was looked at.
    pub state: FileState,
    /// Whether every user may read it, so that its name is no secret.
    pub is_public: bool,
}

impl FileText {
    /// Bytes of the ranges.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(Span::len).sum()
    }

    /// The number of windows.
    pub fn windows(&self) -> u64 {
        match self.gain {
            Gain::Windows(windows) => windows,
            Gain::Folios => 0,
        }
    }
}

/// What files were worth at the last decision.
pub(crate) type Levels = BTreeMap<Key, FileLevels>;

/// What a file was worth: to all, and to each principal.
#[derive(Debug)]
pub(crate) struct FileLevels {
    all: Level,
    by: BTreeMap<Principal, Level>,
}

/// A file, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its path, as the processes that run it name it.
    pub path: PathBuf,
    /// What the kernel calls it.
    pub file: MappedFile,
    /// Its text, once it was looked at.
    pub text: Option<FileText>,
    /// What was seen, by who.
    pub by: BTreeMap<Principal, Evidence>,
    /// Seconds of processor time by NUMA node; empty on a machine of one node.
    nodes: BTreeMap<Node, Decayed>,
    /// Its numbers: a container's file has others than the layer it comes from.
    ids: Vec<FileId>,
}

impl Known {
    /// Whether it counts among the new files that wait to be looked at. What was only remembered does
    /// not: it is bounded, and leaves room for what is new.
    fn is_unread(&self) -> bool {
        self.text.is_none() && self.file.id.dev != REMEMBERED
    }

    /// The control groups that ran it. One that several users share is named once for each.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u64> {
        self.by.keys().map(|by| by.group)
    }

    /// Starts that are remembered.
    pub(crate) fn starts(&self, moment: EvidenceTime) -> f64 {
        let starts = self.by.values().map(|seen| seen.starts.at(moment));
        starts.sum()
    }

    /// Seconds of processor time that are remembered.
    pub(crate) fn processor(&self, moment: EvidenceTime) -> f64 {
        let seconds = self.by.values().map(|seen| seen.processor.at(moment));
        seconds.sum()
    }

    /// Which nodes run it, by processor time that is remembered.
    pub(crate) fn runners(&self, moment: EvidenceTime) -> Runners {
        let mut runners = Runners::default();
        for (node, seconds) in &self.nodes {
            let microseconds = seconds.at(moment) * 1e6;
            if microseconds >= 1.0 {
                runners.add(*node, microseconds as u64);
            }
        }
        runners
    }

    /// What holding it saves over the next half-life, in nanoseconds per window.
    pub(crate) fn worth(&self, costs: &Costs, moment: EvidenceTime) -> Worth {
        let Some(text) = &self.text else {
            return Worth::default();
        };
        let each = self
            .by
            .values()
            .map(|seen| worth(seen, text, costs, moment));
        each.sum()
    }
}

fn worth(seen: &Evidence, text: &FileText, costs: &Costs, moment: EvidenceTime) -> Worth {
    Worth::of(seen, TOUCHED, text.gain, text.leaf, costs, moment)
}

/// What a start was of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// A file that holds nothing huge.
    Small,
    /// A file whose text is known.
    Known,
    /// A file that must be looked at.
    Unread(Key),
    /// A new file, of which too many came at once.
    Uncounted,
}

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: BTreeMap<Key, Known>,
    by_id: HashMap<FileId, Key>,
    /// The files with text, by where this machine opens it.
    by_path: HashMap<PathBuf, Key>,
    /// The numbers of files that hold nothing huge, with their generations.
    small: HashMap<FileId, u64>,
    unread: usize,
    /// The files without text that could not be looked at. They may have gone at once, as the programs of a
    /// configure script do, so they take no place from files that were not tried.
    unreadable: BTreeSet<Key>,
    next: Key,
    /// Starts that were not counted, because too many new files came at once.
    pub uncounted: u64,
}

impl Catalog {
    /// All files, in the order in which they were seen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Known)> {
        self.files.iter().map(|(key, known)| (*key, known))
    }

    /// A file.
    pub(crate) fn get(&self, key: Key) -> Option<&Known> {
        self.files.get(&key)
    }

    /// The file with these numbers, as /proc/PID/maps gives them.
    pub(crate) fn of_id(&self, id: FileId) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    /// A process mapped the text of a file. `by` says on whose behalf it runs.
    pub(crate) fn started(
        &mut self,
        by: impl FnOnce() -> Principal,
        (file, path): (MappedFile, PathBuf),
        moment: EvidenceTime,
    ) -> Started {
        if self.small.get(&file.id) == Some(&file.generation) {
            return Started::Small;
        }
        let known = self.by_id.get(&file.id).copied();
        let same = known.filter(|key| {
            let known = self.files.get(key);
            known.is_some_and(|known| known.file.generation == file.generation)
        });
        let key = match same {
            Some(key) => key,
            None if self.unread >= MOST_UNREAD => {
                self.uncounted = self.uncounted.saturating_add(1);
                return Started::Uncounted;
            }
            None => self.insert(file, path),
        };
        let Some(known) = self.files.get_mut(&key) else {
            return Started::Uncounted;
        };
        let seen = known.by.entry(by()).or_default();
        seen.starts.add(1.0, moment);
        match known.text {
            Some(_) => Started::Known,
            None => Started::Unread(key),
        }
    }

    fn insert(&mut self, file: MappedFile, path: PathBuf) -> Key {
        self.next = self.next.saturating_add(1);
        let known = Known {
            path,
            file,
            text: None,
            by: BTreeMap::new(),
            nodes: BTreeMap::new(),
            ids: Vec::new(),
        };
        self.unread = self.unread.saturating_add(usize::from(known.is_unread()));
        self.files.insert(self.next, known);
        self.number(self.next, file.id);
        self.next
    }

    /// A file that a process runs which started before anybody watched; `None` if it is known to hold
    /// nothing huge, or if too many files wait to be looked at.
    pub(crate) fn met(&mut self, file: MappedFile, path: &Path) -> Option<Key> {
        let is_small = self.small.contains_key(&file.id);
        (!is_small && self.unread < MOST_UNREAD).then(|| self.insert(file, path.to_owned()))
    }

    /// How many files are known to hold nothing huge.
    pub(crate) fn small(&self) -> usize {
        self.small.len()
    }

    /// A process spent time in the text of a file.
    pub(crate) fn ran(&mut self, key: Key, by: Principal, seconds: f64, moment: EvidenceTime) {
        if let Some(known) = self.files.get_mut(&key) {
            let seen = known.by.entry(by).or_default();
            seen.processor.add(seconds, moment);
        }
    }

    /// A process that runs on `runners` spent time in the text of a file.
    pub(crate) fn ran_on(
        &mut self,
        key: Key,
        runners: &Runners,
        seconds: f64,
        moment: EvidenceTime,
    ) {
        let Some(known) = self.files.get_mut(&key) else {
            return;
        };
        let all: f64 = runners.each().map(|(_, weight)| weight as f64).sum();
        for (node, weight) in runners.each() {
            let part = seconds * weight as f64 / all.max(1.0);
            known.nodes.entry(node).or_default().add(part, moment);
        }
    }

    /// A file was looked at. Without text that could be huge, only that is remembered. Returns the number
    /// of the file from now on, which is an older one if the file is the same, or has replaced it.
    pub(crate) fn identified(
        &mut self,
        key: Key,
        file: MappedFile,
        text: Option<FileText>,
        moment: EvidenceTime,
    ) -> Option<Key> {
        let known = self.files.get_mut(&key)?;
        if let Some(text) = text {
            let was_unread = known.is_unread() && !self.unreadable.remove(&key);
            self.unread = self.unread.saturating_sub(usize::from(was_unread));
            let path = text.path.clone();
            if known.file.id.dev == REMEMBERED {
                known.file = file;
            }
            let before = known.text.replace(text);
            if let Some(before) = before.filter(|before| before.path != path) {
                self.by_path.remove(&before.path);
            }
            let key = self.join(key, path, moment);
            // The layer of a container's file has numbers of its own; both lead here.
            self.number(key, file.id);
            return Some(key);
        }
        let small = known.file;
        self.remove(key);
        if self.small.len() >= MOST_SMALL {
            self.small.clear();
        }
        self.small.insert(small.id, small.generation);
        None
    }

    /// A file could not be looked at. Of too many such files, the oldest is forgotten, and returned.
    pub(crate) fn failed(&mut self, key: Key) -> Option<Key> {
        if !self.files.get(&key).is_some_and(Known::is_unread) || !self.unreadable.insert(key) {
            return None;
        }
        self.unread = self.unread.saturating_sub(1);
        let is_over = self.unreadable.len() > MOST_UNREADABLE;
        let oldest = self.unreadable.first().copied().filter(|_| is_over)?;
        self.remove(oldest);
        Some(oldest)
    }

    /// Makes one file of those that are the same below: the same image's file in several containers, or
    /// a file and the one that it replaced. Returns the number of that file.
    fn join(&mut self, key: Key, path: PathBuf, moment: EvidenceTime) -> Key {
        let first = *self.by_path.entry(path).or_insert(key);
        if first == key {
            return key;
        }
        let Some(newer) = self.files.remove(&key) else {
            return first;
        };
        if let Some(known) = self.files.get_mut(&first) {
            for (by, seen) in newer.by {
                known.by.entry(by).or_default().add(&seen, moment);
            }
            (known.file, known.text) = (newer.file, newer.text);
        }
        for id in newer.ids {
            self.number(first, id);
        }
        first
    }

    /// These numbers are those of a file.
    fn number(&mut self, key: Key, id: FileId) {
        self.by_id.insert(id, key);
        if let Some(known) = self.files.get_mut(&key)
            && !known.ids.contains(&id)
        {
            known.ids.push(id);
            // Each container that ran it had one. The oldest is the first to be of no use.
            let oldest = (known.ids.len() > MOST_IDS).then(|| known.ids.remove(0));
            if let Some(oldest) = oldest {
                self.by_id.remove(&oldest);
            }
        }
    }

    /// Forgets a file.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(known) = self.files.remove(&key) else {
            return;
        };
        let was_unread = known.is_unread() && !self.unreadable.remove(&key);
        self.unread = self.unread.saturating_sub(usize::from(was_unread));
        if let Some(text) = known.text {
            self.by_path.remove(&text.path);
        }
        for id in known.ids {
            if self.by_id.get(&id) == Some(&key) {
                self.by_id.remove(&id);
            }
        }
    }

    /// The files that could be held, of those whose starts `counts`, and why not the others that have text. `levels`,
    /// those of the last time, follow what was seen.
    pub(crate) fn candidates(
        &self,
        levels: &mut Levels,
        costs: &Costs,
        moment: EvidenceTime,
        counts: impl Fn(&Path, Principal) -> Result<(), Exclusion>,
    ) -> (Vec<Candidate<Key>>, BTreeMap<Key, Exclusion>) {
        let mut candidates = Vec::new();
        let mut excluded = BTreeMap::new();
        levels.retain(|key, _| self.files.contains_key(key));
        for (key, known) in &self.files {
            let Some(text) = known.text.as_ref() else {
                continue;
            };
            if text.obstacle.is_some() {
                excluded.insert(*key, Exclusion::Filesystem);
                continue;
            }
            if !text.stays {
                excluded.insert(*key, Exclusion::Unmountable);
                continue;
            }
            let mut claims = Vec::new();
            let mut all = Worth::default();
            let before = levels.get(key);
            let mut by_principal = BTreeMap::new();
            let mut exclusion = None;
            for (by, seen) in &known.by {
                if let Err(why) = counts(&known.path, *by) {
                    exclusion = exclusion.into_iter().chain([why]).min();
                    continue;
                }
                let worth = worth(seen, text, costs, moment);
                let level = Level::follow(
                    before.and_then(|file| file.by.get(by).copied()),
                    worth,
                    costs,
                );
                by_principal.insert(*by, level);
                claims.push(Claim {
                    principal: *by,
                    level,
                });
                all = all + worth;
            }
            let level = Level::follow(before.map(|file| file.all), all, costs);
            let of_file = FileLevels {
                all: level,
                by: by_principal,
            };
            levels.insert(*key, of_file);
            if claims.is_empty() {
                excluded.insert(*key, exclusion.unwrap_or(Exclusion::NotRun));
                continue;
            }
            candidates.push(Candidate {
                key: *key,
                bytes: text.bytes(),
                level,
                claims,
            });
        }
        (candidates, excluded)
    }
}
