//! The store itself: its directory, who owns it, and its lock.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_host::lock;
use hugetext_leaf::FileId;
use rustix::fs::StatVfsMountFlags;

use crate::error::{StoreError, at};
use crate::identity::Identity;
use crate::shelf::Shelf;
use crate::trust;

/// A trusted entry: it belongs to the right user, and no other user can write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path.
    pub path: PathBuf,
    /// Which file it was when it was checked.
    pub id: FileId,
}

/// A file of which a copy is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Original<'o> {
    /// The file itself.
    pub file: &'o File,
    /// Its path, without symbolic links. A user who can reach this path can reach the copy.
    pub path: &'o Path,
    /// The identity found for it.
    pub identity: &'o Identity,
}

/// How long to wait for other processes that change the store: many times the duration of the
/// largest program's copy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store. Its directory was found safe when it was opened.
#[derive(Debug)]
pub struct Store {
    pub(crate) root: PathBuf,
    /// The public part, for every user who can read the directory, and the private part of its
    /// owner.
    pub(crate) shelves: [Shelf; 2],
    /// Owner of the directory: the caller or root.
    pub(crate) owner: u32,
    /// The remaining time that it may wait for other processes, in total.
    patience: Cell<Duration>,
}

impl Store {
    /// Opens the store at `root`, if it exists.
    pub fn open(root: &Path) -> Result<Option<Store>, StoreError> {
        let root = match fs::canonicalize(root) {
            Ok(root) => root,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(root)(error)),
        };
        let owner = trust::check_directory(&root)?;
        Ok(Some(Store::new(root, owner)))
    }

    fn new(root: PathBuf, owner: u32) -> Store {
        Store {
            shelves: [Shelf::new(root.clone()), Shelf::new(root.join("private"))],
            root,
            owner,
            patience: Cell::new(PATIENCE),
        }
    }

    /// Opens the store at `root`, or creates it: only its owner can write to it, and other users
    /// can read it if that owner is root.
    pub fn create(root: &Path) -> Result<Store, StoreError> {
        let mode = if rustix::process::geteuid().is_root() {
            0o755
        } else {
            0o700
        };
        Shelf::new(root.to_owned()).create(mode)?;
        Store::open(root)?.ok_or_else(|| at(root)(io::ErrorKind::NotFound.into()))
    }

    /// Makes a store in `root`, the root of a filesystem that this process has just
    /// mounted in its own namespace, so no other process can have touched it.
    pub fn in_private_mount(root: &Path) -> Result<Store, StoreError> {
        let store = Store::new(root.to_owned(), rustix::process::geteuid().as_raw());
        let [open, _] = &store.shelves;
        open.create(0o700)?;
        Ok(store)
    }

    /// Limits the total time that it waits for other processes to `patience`, instead of half a
    /// minute.
    pub fn with_patience(self, patience: Duration) -> Store {
        self.patience.set(patience);
        self
    }

    /// Its directory, with symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the caller may add to it.
    pub fn is_writable(&self) -> bool {
        let read_only = rustix::fs::statvfs(&self.root)
            .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY));
        self.owner == rustix::process::geteuid().as_raw() && !read_only
    }

    /// Waits until no other process adds or removes entries, with a time limit.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly(self.root.clone()));
        }
        let path = self.root.join("lock");
        let (begun, patience) = (Instant::now(), self.patience.get());
        let locked = lock(&path, patience);
        self.patience.set(patience.saturating_sub(begun.elapsed()));
        locked.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::Busy(self.root.clone()),
            _ => at(&path)(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_is_all_that_a_busy_store_costs() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("store");
        let patience = Duration::from_millis(20);
        let store = Store::create(&root).unwrap().with_patience(patience);
        let held = lock(&root.join("lock"), Duration::ZERO).unwrap();
        assert!(matches!(store.lock(), Err(StoreError::Busy(_))));
        assert_eq!(store.patience.get(), Duration::ZERO);
        assert!(matches!(store.lock(), Err(StoreError::Busy(_))));
        drop(held);
        assert!(store.lock().is_ok(), "a free lock needs no patience");
    }
}
