//! Lists, checks and clears a store.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hugetext_host::{lease, replace_with};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{StoreError, at};
use crate::identity::{self, Identity};
use crate::shelf::{EntryInfo, Shelf};
use crate::store::Store;

/// The result of a collection.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Collected {
    /// The entries removed, least recently used first.
    pub removed: Vec<EntryInfo>,
    /// Bytes that the remaining entries take.
    pub left: u64,
}

/// A defective entry.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Flaw {
    /// Its key.
    pub key: String,
    /// The path of the original; empty if it is no longer known.
    pub path: String,
    /// The problem.
    pub problem: &'static str,
}

/// The default limit of a store: 4 GiB.
pub const DEFAULT_LIMIT: u64 = 4 << 30;

impl Store {
    /// The entries, least recently used first.
    pub fn entries(&self) -> Result<Vec<EntryInfo>, StoreError> {
        let listed = self.listed()?;
        Ok(listed.into_iter().map(|(_, entry)| entry).collect())
    }

    /// The copies that were made of the file at `path`, without symbolic links, or that the file `original` leads to now, least
    /// recently used first. Files of the same content share copies, and a copy names one of them.
    pub fn copies_of(&self, path: &Path, original: &File) -> Result<Vec<EntryInfo>, StoreError> {
        let identity = Identity::of(original).map_err(at(path))?;
        let is_copy = |(shelf, entry): &(&Shelf, EntryInfo)| {
            let linked = shelf.linked(&identity.name(&entry.recipe));
            Path::new(&entry.path) == path || linked.as_ref() == Some(&entry.key)
        };
        let listed = self.listed()?.into_iter().filter(is_copy);
        Ok(listed.map(|(_, entry)| entry).collect())
    }

    fn listed(&self) -> Result<Vec<(&Shelf, EntryInfo)>, StoreError> {
        let mut listed = Vec::new();
        for shelf in &self.shelves {
            let entries = shelf.keys()?.into_iter();
            listed.extend(entries.filter_map(|key| Some((shelf, shelf.info(key)?))));
        }
        listed.sort_by(|(_, a), (_, b)| (a.used, &a.key).cmp(&(b.used, &b.key)));
        Ok(listed)
    }

    /// Limit on the bytes of the store: the one that was set, or [`DEFAULT_LIMIT`]. A damaged limit is
    /// an error until it is set again.
    pub fn limit(&self) -> Result<u64, StoreError> {
        let path = self.root.join("limit");
        match fs::read_to_string(&path) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(|_| StoreError::DamagedLimit(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DEFAULT_LIMIT),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(StoreError::DamagedLimit(path))
            }
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Sets the limit on the bytes of the store.
    pub fn set_limit(&self, bytes: u64) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let path = self.root.join("limit");
        replace_with(&path, format!("{bytes}\n").as_bytes())
            .map_err(|error| at(&path)(io::Error::other(error)))
    }

    /// Removes leftovers, then the least recently used entries until the rest takes at most
    /// `limit` bytes. Those that a process maps or has open are the last to go: a core dump of it needs them.
    pub fn collect(&self, limit: u64) -> Result<Collected, StoreError> {
        let _lock = self.lock()?;
        self.sweep()?;
        self.evict(limit)
    }

    /// Removes the entries for which `unwanted` holds.
    pub fn remove(
        &self,
        unwanted: impl Fn(&EntryInfo) -> bool,
    ) -> Result<Vec<EntryInfo>, StoreError> {
        let _lock = self.lock()?;
        let mut removed = Vec::new();
        for (shelf, entry) in self.listed()? {
            if unwanted(&entry) {
                shelf.remove(&entry.key)?;
                removed.push(entry);
            }
        }
        self.sweep()?;
        Ok(removed)
    }

    /// Reads every entry again, and compares the name that follows from its bytes with its name.
    pub fn verify(&self) -> Result<Vec<Flaw>, StoreError> {
        let mut flaws = Vec::new();
        for (shelf, entry) in self.listed()? {
            if let Some(problem) = flaw(shelf, &entry.key) {
                flaws.push(Flaw {
                    key: entry.key,
                    path: entry.path,
                    problem,
                });
            }
        }
        Ok(flaws)
    }

    /// Makes room for an entry of `needed` bytes. The lock must be held.
    pub(crate) fn make_room(&self, needed: u64) -> Result<(), StoreError> {
        let limit = self.limit()?;
        let rest = limit
            .checked_sub(needed)
            .ok_or(StoreError::Full { needed, limit })?;
        self.evict(rest).map(drop)
    }

    fn evict(&self, limit: u64) -> Result<Collected, StoreError> {
        let mut entries = self.listed()?;
        let mut left: u64 = entries.iter().map(|(_, entry)| entry.size).sum();
        let mut removed = Vec::new();
        if left > limit {
            entries.sort_by_cached_key(|(shelf, entry)| is_in_use(shelf, &entry.key));
        }
        for (shelf, entry) in entries {
            if left <= limit {
                break;
            }
            shelf.remove(&entry.key)?;
            left = left.saturating_sub(entry.size);
            removed.push(entry);
        }
        Ok(Collected { removed, left })
    }

    fn sweep(&self) -> Result<(), StoreError> {
        self.shelves.iter().try_for_each(Shelf::sweep)
    }
}

/// Whether a process maps an entry or has it open, as far as this user may know.
fn is_in_use(shelf: &Shelf, key: &str) -> bool {
    let opened = shelf.open(key).ok().flatten();
    opened.is_some_and(|file| lease(&file).is_ok_and(|alone| !alone))
}

fn flaw(shelf: &Shelf, key: &str) -> Option<&'static str> {
    let Ok(Some(file)) = shelf.open(key) else {
        return Some("it cannot be read");
    };
    let is_safe = |metadata: &Metadata| metadata.is_file() && metadata.mode() & 0o6022 == 0;
    if !file.metadata().as_ref().is_ok_and(is_safe) {
        return Some("others may write to it, or it changes the user");
    }
    let Some(origin) = shelf.read_origin(key) else {
        return Some("its origin is unknown, or an older version made it");
    };
    match identity::key(&file, &origin.recipe) {
        Ok(named) if named == key => None,
        Ok(_) => Some("its name does not follow from its content"),
        Err(_) => Some("it cannot be read"),
    }
}
