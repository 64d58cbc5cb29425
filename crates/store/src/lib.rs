//! A directory of copies of files. A copy is found by its original's identity and made from its
//! content.
//!
//! ```text
//! ROOT/lock            held (flock) by a process that adds or removes
//! ROOT/limit           bytes, as text; absent for the default
//! ROOT/entries/KEY     a copy, with mode (without write), group, ACL, label and times of its original
//! ROOT/entries/KEY.json  its origin and its seal
//! ROOT/index/IDENTITY  symbolic link to the key
//! ROOT/private/…       the same for originals that not every user can reach, for the owner alone
//! ```
//!
//! A key is a hash of the entry's own bytes, its rights and its recipe, so an entry cannot hold anything but
//! what its name says. Two originals share an entry if their copies do not differ in any of these.
//!
//! The identity of an original leads to a key. If the kernel vouches for the original, its identity is a state:
//! the kernel sets ctime, so a changed file cannot look unchanged once the tick of its last change is over. The
//! copy is made from the file in that state, and while nobody has it open for writing. Otherwise its identity is
//! its content with its owner, and the copy is made from bytes that were read once: they are copied
//! to a file that nobody else can open, and that file is hashed and rewritten.
//!
//! Entries belong to the store's owner and get their name when they are complete. The kernel releases the lock of
//! a process that ends. So a killed process leaves neither torn entries nor locks behind.
//!
//! The door is [`Store`]: [`Store::find`] looks for the copy of an [`Original`], [`Store::fill`] makes
//! it, and the rest lists, checks and clears. [`may_stand_in`] says whether a copy may be shown in
//! the place of a file at all. What a copy contains is up to the caller, who names it by a recipe.
//! System calls go through rustix and [`hugetext_host`]; this crate has no unsafe code.

mod fill;
mod identity;
mod seal;
mod shelf;
mod trust;
mod upkeep;

use std::cell::Cell;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_host::{ReplaceError, lock};
use hugetext_leaf::FileId;
use rustix::fs::StatVfsMountFlags;

pub use identity::Identity;
use seal::{Found, Origin};
pub use shelf::EntryInfo;
use shelf::Shelf;
pub use trust::may_stand_in;
pub use upkeep::{Collected, Flaw};

/// The default limit of a store: 4 GiB.
pub const DEFAULT_LIMIT: u64 = 4 << 30;

/// An error of the writer of an entry.
pub type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// Why the store has no entry for a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Other users control the directory, or one above it.
    #[error("the store {path} is not safe to use: {reason}")]
    Unsafe {
        /// The directory or entry.
        path: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// This user may use the store but not change it, or the store is mounted read-only.
    #[error("the store {0} cannot be written by this process")]
    ReadOnly(PathBuf),
    /// A copy was changed after it was made.
    #[error("the copy {0} is damaged")]
    Damaged(PathBuf),
    /// The entry would not fit, even alone.
    #[error("the store is full: {needed} bytes needed, {limit} allowed")]
    Full {
        /// Bytes the entry takes.
        needed: u64,
        /// Bytes the store may take.
        limit: u64,
    },
    /// Other processes have kept it locked longer than this one may wait.
    #[error("the store {0} is busy: another process keeps it locked")]
    Busy(PathBuf),
    /// The original changed while it was copied.
    #[error("the file changed while it was read")]
    Changed,
    /// The original changed so recently, by its ctime and the clock, that a further change might not
    /// show.
    #[error("the file has just changed")]
    JustChanged,
    /// A process may change the original, without a sign of it.
    #[error("a process has the file open for writing")]
    OpenForWriting,
    /// The file `limit` of the store does not hold a number of bytes.
    #[error("{0} is damaged: it must hold a number of bytes")]
    DamagedLimit(PathBuf),
    /// The copy could not be written.
    #[error(transparent)]
    Write(WriteError),
    /// The copy could not get the attributes of the original, or could not be put into place.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The store could not be read or changed.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

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
    root: PathBuf,
    /// The public part, for every user who can read the directory, and the private part of its
    /// owner.
    shelves: [Shelf; 2],
    /// Owner of the directory: the caller or root.
    owner: u32,
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

    /// The entry made from `original` by `recipe`. An untrusted entry is an error.
    pub fn find(&self, original: Original<'_>, recipe: &str) -> Result<Option<Entry>, StoreError> {
        let metadata = original.file.metadata().map_err(at(original.path))?;
        let name = original.identity.name(recipe);
        let mut refused = Ok(None);
        for shelf in &self.shelves {
            let Some(key) = shelf.linked(&name) else {
                continue;
            };
            match self.usable(shelf, &key, &metadata) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => refused = Err(error),
            }
        }
        refused
    }

    /// The entry, if it exists; an error if it differs from what this store made.
    fn usable(
        &self,
        shelf: &Shelf,
        key: &str,
        original: &Metadata,
    ) -> Result<Option<Entry>, StoreError> {
        let path = shelf.entry(key);
        let Some(file) = shelf.open(key)? else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(at(&path))?;
        trust::check_entry(&path, &metadata, original, self.owner)?;
        let damaged = || StoreError::Damaged(path.clone());
        let origin = shelf.read_origin(key).ok_or_else(damaged)?;
        let seal = origin.seal.as_ref().ok_or_else(damaged)?;
        let is_whole = |file: &File| Ok(identity::key(file, &origin.recipe)? == key);
        match seal.check(&file, is_whole).map_err(at(&path))? {
            Found::Whole => {}
            Found::WholeAgain(seal) => {
                // A user who may not record the seal reads the entry again at the next use.
                if self.is_writable() {
                    let seal = Some(seal);
                    let _ = fill::write_origin(shelf, key, &Origin { seal, ..origin });
                }
            }
            Found::Damaged => return Err(damaged()),
        }
        self.mark_used(&shelf.origin(key));
        Ok(Some(Entry {
            id: FileId::of(&metadata),
            path,
        }))
    }

    /// Waits until no other process adds or removes entries, with a time limit.
    fn lock(&self) -> Result<File, StoreError> {
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

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_file_that_changed_this_instant_is_copied_when_its_tick_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("store")).unwrap();
        let path = directory.path().join("original");
        fs::write(&path, [7; 100_000]).unwrap();
        let file = File::open(&path).unwrap();
        let identity = Identity::of(&file).unwrap().unsettled();
        let original = Original {
            file: &file,
            path: &path,
            identity: &identity,
        };
        let put = |original| store.fill(original, "same", |_, to| Ok(to.write_all_at(&[7; 9], 0)?));
        let entry = put(original).unwrap();
        assert_eq!(store.find(original, "same").unwrap(), Some(entry));
        // Somebody writes outside the sample before the tick is over.
        let writer = File::options().write(true).open(&path).unwrap();
        writer.write_all_at(&[8], 30_000).unwrap();
        let changed = put(original);
        assert!(matches!(changed, Err(StoreError::Changed)), "{changed:?}");
    }

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
