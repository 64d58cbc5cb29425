//! A directory of copies of files, found by what the original is and made from its content.
//!
//! ```text
//! ROOT/lock            held (flock) by whoever adds or removes
//! ROOT/limit           bytes, as text; absent for the default
//! ROOT/entries/KEY     a copy: owner, mode, ACL, label and times of its original
//! ROOT/entries/KEY.json  what it was made from
//! ROOT/index/IDENTITY  symbolic link to the key
//! ```
//!
//! A key is a hash of content, owner, rights and recipe, so two originals share an entry only if
//! nothing tells them apart. An identity (device, inode, size, times, recipe) stands for a key
//! without reading the file; the kernel sets ctime, so nobody can make a changed file look
//! unchanged. Entries get their name when they are complete, and the lock is the kernel's: a killed
//! process leaves neither torn entries nor locks behind.

mod trust;
mod upkeep;

use std::cell::Cell;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::lock::lock;
use crate::output::{ReplaceError, Replacement};
pub use trust::may_stand_in;
pub use upkeep::{Collected, EntryInfo, Flaw};

/// What a store holds at most unless it says otherwise: 4 GiB.
pub const DEFAULT_LIMIT: u64 = 4 << 30;

/// What the writer of an entry met.
pub type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// Why the store has no entry for a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory, or one above it, is in the hands of others.
    #[error("the store {path} is not safe to use: {reason}")]
    Unsafe {
        /// The directory or entry.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// This user may use the store but not change it.
    #[error("the store {0} belongs to root")]
    ReadOnly(PathBuf),
    /// The entry would not fit, even alone.
    #[error("the store is full: {needed} bytes needed, {limit} allowed")]
    Full {
        /// Bytes the entry takes.
        needed: u64,
        /// Bytes the store may take.
        limit: u64,
    },
    /// Others have kept it locked for as long as this one is ready to wait.
    #[error("the store {0} is busy: another process has been changing it for long")]
    Busy(PathBuf),
    /// The original changed while it was copied.
    #[error("the file changed while it was read")]
    Changed,
    /// The copy could not be written.
    #[error(transparent)]
    Write(WriteError),
    /// The copy could not be made the equal of the original, or put into place.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The store could not be read or changed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// An entry that may be used: it belongs to whom it should, and nobody else can write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub path: PathBuf,
    /// Its device and inode when it was checked.
    pub inode: (u64, u64),
}

/// What KEY.json says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    /// Path of the original when the entry was made; lossy if that is not UTF-8.
    path: String,
    recipe: String,
    /// Hash of the entry's own content.
    content: String,
}

/// How long to wait for others who change the store: many times what the largest program takes to
/// copy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store, its directory found safe when it was opened.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// Owner of the directory: the caller or root.
    owner: u32,
    /// How long it is still ready to wait for others, in all.
    patience: Cell<Duration>,
}

impl Store {
    /// Opens the store at `root`, if there is one.
    pub fn open(root: &Path) -> Result<Option<Store>, StoreError> {
        let root = match fs::canonicalize(root) {
            Ok(root) => root,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(root)(error)),
        };
        let owner = trust::check_directory(&root)?;
        Ok(Some(Store {
            root,
            owner,
            patience: Cell::new(PATIENCE),
        }))
    }

    /// Opens the store at `root`; makes it if need be, for its owner alone to write, and readable by
    /// others where that owner is root.
    pub fn create(root: &Path) -> Result<Store, StoreError> {
        let mode = match rustix::process::geteuid().is_root() {
            true => 0o755,
            false => 0o700,
        };
        for directory in [root.to_owned(), root.join("entries"), root.join("index")] {
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(mode).create(&directory);
            made.map_err(at(&directory))?;
        }
        Store::open(root)?.ok_or_else(|| at(root)(io::ErrorKind::NotFound.into()))
    }

    /// Makes a store in `root`, which is the root of a filesystem that this process has just
    /// mounted in a namespace of its own, so nobody else can have touched it.
    pub fn in_private_mount(root: &Path) -> Result<Store, StoreError> {
        for directory in [root.join("entries"), root.join("index")] {
            fs::create_dir(&directory).map_err(at(&directory))?;
        }
        Ok(Store {
            root: root.to_owned(),
            owner: rustix::process::geteuid().as_raw(),
            patience: Cell::new(PATIENCE),
        })
    }

    /// Waits that long for others who change it, however often it finds them at it, instead of half
    /// a minute.
    pub fn with_patience(self, patience: Duration) -> Store {
        self.patience.set(patience);
        self
    }

    /// Its directory, symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the caller may add to it.
    pub fn is_writable(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }

    /// The entry made from `original` by `recipe`, without reading either.
    pub fn find(&self, original: &File, recipe: &str) -> Result<Option<Entry>, StoreError> {
        let original = original.metadata().map_err(at(&self.root))?;
        let link = self.index().join(identity(&original, recipe));
        let target = match fs::read_link(&link) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&link)(error)),
        };
        let key = target.to_str().filter(|key| is_key(key));
        key.map_or(Ok(None), |key| self.usable(key, &original))
    }

    /// The entry made from `original` by `recipe`; `write` fills it if there is none yet. `path` is
    /// noted as where the original lies. Waits for another process that is adding an entry.
    pub fn fill(
        &self,
        original: &File,
        path: &Path,
        recipe: &str,
        mut write: impl FnMut(&File) -> Result<(), WriteError>,
    ) -> Result<Entry, StoreError> {
        let _lock = self.lock()?;
        if let Some(entry) = self.find(original, recipe)? {
            return Ok(entry);
        }
        let before = original.metadata().map_err(at(path))?;
        let key = key(original, recipe).map_err(at(path))?;
        if self.usable(&key, &before)?.is_none() {
            self.make_room(before.len())?;
            let origin = Origin {
                path: path.to_string_lossy().into_owned(),
                recipe: recipe.to_owned(),
                content: String::new(),
            };
            self.add(&key, original, origin, &mut write)?;
        }
        let after = original.metadata().map_err(at(path))?;
        if identity(&before, recipe) != identity(&after, recipe) {
            return Err(StoreError::Changed);
        }
        self.link(&identity(&before, recipe), &key)?;
        self.usable(&key, &before)?.ok_or(StoreError::Changed)
    }

    /// Writes an entry. What it was made from is told before it has a name, so that there is no
    /// entry of which nothing is known.
    fn add(
        &self,
        key: &str,
        original: &File,
        origin: Origin,
        write: &mut impl FnMut(&File) -> Result<(), WriteError>,
    ) -> Result<(), StoreError> {
        let path = self.entry(key);
        let new = Replacement::new(&path)?;
        write(new.file()).map_err(StoreError::Write)?;
        if rustix::process::geteuid().is_root() {
            new.copy_owner(original)?;
        }
        new.copy_rights(original)?;
        let content = hash(blake3::Hasher::new(), new.file()).map_err(at(&path))?;
        self.write_origin(key, &Origin { content, ..origin })?;
        new.commit()?;
        Ok(())
    }

    fn write_origin(&self, key: &str, origin: &Origin) -> Result<(), StoreError> {
        let path = self.origin(key);
        let text = serde_json::to_vec(origin).map_err(|error| at(&path)(error.into()))?;
        let new = Replacement::new(&path)?;
        new.file().write_all_at(&text, 0).map_err(at(&path))?;
        new.commit()?;
        Ok(())
    }

    fn link(&self, identity: &str, key: &str) -> Result<(), StoreError> {
        let link = self.index().join(identity);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&link)(error)),
            _ => {}
        }
        std::os::unix::fs::symlink(key, &link).map_err(at(&link))
    }

    /// The entry, if it is there; an error if it is not what this store made.
    fn usable(&self, key: &str, original: &Metadata) -> Result<Option<Entry>, StoreError> {
        let path = self.entry(key);
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        trust::check_entry(&path, &metadata, original, self.owner)?;
        self.mark_used(&path, &metadata);
        Ok(Some(Entry {
            inode: (metadata.dev(), metadata.ino()),
            path,
        }))
    }

    /// Waits until nobody else adds or removes, but not for ever.
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

    fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    fn entries_directory(&self) -> PathBuf {
        self.root.join("entries")
    }

    fn entry(&self, key: &str) -> PathBuf {
        self.entries_directory().join(key)
    }

    fn origin(&self, key: &str) -> PathBuf {
        self.entries_directory().join(format!("{key}.json"))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

/// Names a state of a file: whoever could forge one could write the file.
fn identity(file: &Metadata, recipe: &str) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}-{:x}.{:x}-{recipe}",
        file.dev(),
        file.ino(),
        file.len(),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    )
}

fn is_key(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn key(original: &File, recipe: &str) -> io::Result<String> {
    let metadata = original.metadata()?;
    let mut hasher = blake3::Hasher::new();
    let (uid, gid, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
    hasher.update(format!("1 {recipe} {uid} {gid} {mode:o}\0").as_bytes());
    for (name, value) in trust::deciding_xattrs(original)? {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(&name);
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(&value);
    }
    hash(hasher, original)
}

fn hash(mut hasher: blake3::Hasher, file: &File) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let read = file.read_at(&mut buffer, offset)?;
        if read == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        offset += read as u64;
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
        assert!(store.lock().is_ok(), "a free one needs no patience");
    }
}
