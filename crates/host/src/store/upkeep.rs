//! Listing, checking and clearing a store.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use serde::Serialize;

use super::{DEFAULT_LIMIT, Origin, Store, StoreError, at, hash, is_key};

/// An entry, as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryInfo {
    /// Its key.
    pub key: String,
    /// The original; empty if that is no longer known.
    pub path: String,
    /// How it was made; empty if that is no longer known.
    pub recipe: String,
    /// Bytes it takes on disk or in memory.
    pub size: u64,
    /// When it was last used, in seconds since 1970; an hour's precision for its owner, a day's for
    /// others (relatime).
    pub used: u64,
}

/// What a collection did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// The entries removed, least recently used first.
    pub removed: Vec<EntryInfo>,
    /// Bytes that the entries left take.
    pub left: u64,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// Its key.
    pub key: String,
    /// The original; empty if that is no longer known.
    pub path: String,
    /// What is wrong.
    pub problem: &'static str,
}

/// An entry's last use is noted again only after this long.
const USE_PRECISION: Duration = Duration::from_secs(3600);

impl Store {
    /// The entries, least recently used first.
    pub fn entries(&self) -> Result<Vec<EntryInfo>, StoreError> {
        let mut entries: Vec<EntryInfo> = self
            .names()?
            .into_iter()
            .filter(|name| is_key(name))
            .filter_map(|key| self.info(key))
            .collect();
        entries.sort_by(|a, b| (a.used, &a.key).cmp(&(b.used, &b.key)));
        Ok(entries)
    }

    /// Bytes the store may take.
    pub fn limit(&self) -> u64 {
        let text = fs::read_to_string(self.root.join("limit")).unwrap_or_default();
        text.trim().parse().unwrap_or(DEFAULT_LIMIT)
    }

    /// Sets how many bytes the store may take.
    pub fn set_limit(&self, bytes: u64) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let path = self.root.join("limit");
        fs::write(&path, format!("{bytes}\n")).map_err(at(&path))
    }

    /// Removes what is left over, then the least recently used entries until the rest takes at most
    /// `limit` bytes. Running programs keep what they have mapped.
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
        for entry in self.entries()?.into_iter().filter(|entry| unwanted(entry)) {
            self.drop_entry(&entry.key)?;
            removed.push(entry);
        }
        self.sweep()?;
        Ok(removed)
    }

    /// Reads every entry again and compares it with what was written.
    pub fn verify(&self) -> Result<Vec<Flaw>, StoreError> {
        let mut flaws = Vec::new();
        for entry in self.entries()? {
            if let Some(problem) = self.flaw(&entry.key) {
                flaws.push(Flaw {
                    key: entry.key,
                    path: entry.path,
                    problem,
                });
            }
        }
        Ok(flaws)
    }

    fn flaw(&self, key: &str) -> Option<&'static str> {
        let Ok(metadata) = fs::symlink_metadata(self.entry(key)) else {
            return Some("it cannot be read");
        };
        if !metadata.is_file() || metadata.mode() & 0o6022 != 0 {
            return Some("others may write to it, or it changes the user");
        }
        let Some(origin) = self.read_origin(key) else {
            return Some("nothing says what it was made from");
        };
        let content =
            File::open(self.entry(key)).and_then(|file| hash(blake3::Hasher::new(), &file));
        match content {
            Ok(content) if content == origin.content => None,
            Ok(_) => Some("its content is not what was written"),
            Err(_) => Some("it cannot be read"),
        }
    }

    /// Makes room for an entry of `needed` bytes. The lock must be held.
    pub(super) fn make_room(&self, needed: u64) -> Result<(), StoreError> {
        let limit = self.limit();
        let rest = limit
            .checked_sub(needed)
            .ok_or(StoreError::Full { needed, limit })?;
        self.evict(rest).map(drop)
    }

    /// Notes that an entry is in use; for entries of others, relatime has to do.
    pub(super) fn mark_used(&self, path: &Path, metadata: &Metadata) {
        let used = metadata.accessed().unwrap_or(UNIX_EPOCH);
        let recent = SystemTime::now()
            .duration_since(used)
            .is_ok_and(|age| age < USE_PRECISION);
        if recent || !self.is_writable() {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: now.as_secs().cast_signed(),
                tv_nsec: 0,
            },
            last_modification: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
        };
        // A store that cannot say when an entry was used evicts the wrong one at worst.
        let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
    }

    fn evict(&self, limit: u64) -> Result<Collected, StoreError> {
        let entries = self.entries()?;
        let mut left: u64 = entries.iter().map(|entry| entry.size).sum();
        let mut removed = Vec::new();
        for entry in entries {
            if left <= limit {
                break;
            }
            self.drop_entry(&entry.key)?;
            left = left.saturating_sub(entry.size);
            removed.push(entry);
        }
        Ok(Collected { removed, left })
    }

    /// Removes what a killed process left, and links to entries that are gone. The lock must be
    /// held, so nobody is in the midst of adding.
    fn sweep(&self) -> Result<(), StoreError> {
        for name in self.names()? {
            let of = name.strip_suffix(".json").unwrap_or(&name);
            let stays = is_key(of) && self.entry(of).exists();
            if !stays {
                remove(&self.entries_directory().join(&name))?;
            }
        }
        let index = self.index();
        for link in fs::read_dir(&index).map_err(at(&index))? {
            let link = link.map_err(at(&index))?.path();
            let key = fs::read_link(&link).unwrap_or_default();
            if !self.entries_directory().join(key).is_file() {
                remove(&link)?;
            }
        }
        Ok(())
    }

    /// The entry first: an origin without an entry is swept, an entry without one is a flaw.
    fn drop_entry(&self, key: &str) -> Result<(), StoreError> {
        remove(&self.entry(key))?;
        remove(&self.origin(key))
    }

    fn info(&self, key: String) -> Option<EntryInfo> {
        let metadata = fs::symlink_metadata(self.entry(&key)).ok()?;
        let (path, recipe) = self
            .read_origin(&key)
            .map(|origin| (origin.path, origin.recipe))
            .unwrap_or_default();
        Some(EntryInfo {
            key,
            path,
            recipe,
            size: metadata.blocks().saturating_mul(512),
            used: metadata.atime().max(0).unsigned_abs(),
        })
    }

    fn read_origin(&self, key: &str) -> Option<Origin> {
        serde_json::from_slice(&fs::read(self.origin(key)).ok()?).ok()
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.entries_directory();
        let entries = fs::read_dir(&directory).map_err(at(&directory))?;
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        Ok(entries.filter_map(name).collect())
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
