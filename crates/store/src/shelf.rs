//! The directories of copies in a store, and their access rights.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hugetext_host::{Replacement, lossy, make_directories};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{StoreError, at};
use crate::seal::{FORMAT, Origin};

/// An entry in a listing.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EntryInfo {
    /// Its key.
    pub key: String,
    /// The path of the original; empty if it is no longer known.
    pub path: String,
    /// The path of the copy itself.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub file: PathBuf,
    /// The recipe; empty if it is no longer known.
    pub recipe: String,
    /// Bytes it takes on disk or in memory.
    pub size: u64,
    /// Time of the last use, in seconds since 1970. It is precise to an hour for the store's owner,
    /// and to a day for other users (relatime).
    pub used: u64,
}

/// A part of a store.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
}

impl Shelf {
    pub(crate) fn new(root: PathBuf) -> Shelf {
        Shelf { root }
    }

    /// Creates its directories; missing ones get `mode`.
    pub(crate) fn create(&self, mode: u32) -> Result<(), StoreError> {
        for directory in [self.root.clone(), self.entries(), self.index()] {
            make_directories(&directory, mode).map_err(at(&directory))?;
        }
        Ok(())
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.root.join("entries")
    }

    pub(crate) fn entry(&self, key: &str) -> PathBuf {
        self.entries().join(key)
    }

    pub(crate) fn origin(&self, key: &str) -> PathBuf {
        self.entries().join(format!("{key}.json"))
    }

    /// The key that is stored under a name.
    pub(crate) fn linked(&self, name: &str) -> Option<String> {
        let target = fs::read_link(self.index().join(name)).ok()?;
        target.to_str().filter(|key| is_key(key)).map(str::to_owned)
    }

    pub(crate) fn link(&self, name: &str, key: &str) -> Result<(), StoreError> {
        let link = self.index().join(name);
        remove(&link)?;
        std::os::unix::fs::symlink(key, &link).map_err(at(&link))
    }

    /// An entry; `None` if it is missing, or hidden from this user.
    pub(crate) fn open(&self, key: &str) -> Result<Option<File>, StoreError> {
        let path = self.entry(key);
        // Neither a link nor a pipe is an entry: open(2) must not follow one and not wait for the other.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let opened = File::options()
            .read(true)
            .custom_flags(flags.cast_signed())
            .open(&path);
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
                _ => Err(at(&path)(error)),
            },
        }
    }

    /// What is known of an entry of this format.
    pub(crate) fn read_origin(&self, key: &str) -> Option<Origin> {
        self.any_origin(key)
            .filter(|origin| origin.format == FORMAT)
    }

    /// The same for entries of older formats too.
    fn any_origin(&self, key: &str) -> Option<Origin> {
        serde_json::from_slice(&fs::read(self.origin(key)).ok()?).ok()
    }

    /// Every user who can reach the file can read it, because they check the seal too.
    pub(crate) fn write_origin(&self, key: &str, origin: &Origin) -> Result<(), StoreError> {
        let path = self.origin(key);
        let text = serde_json::to_vec(origin).map_err(|error| at(&path)(error.into()))?;
        let new = Replacement::new(&path)?;
        new.file().write_all_at(&text, 0).map_err(at(&path))?;
        let mode = Permissions::from_mode(0o644);
        new.file().set_permissions(mode).map_err(at(&path))?;
        new.commit()?;
        Ok(())
    }

    /// The names of entries and of all other files there; none if this user may not read the
    /// directory.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.entries();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
                _ => return Err(at(&directory)(error)),
            },
        };
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        Ok(entries.filter_map(name).collect())
    }

    pub(crate) fn keys(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names()?;
        names.retain(|name| is_key(name));
        Ok(names)
    }

    pub(crate) fn info(&self, key: String) -> Option<EntryInfo> {
        let metadata = fs::symlink_metadata(self.entry(&key)).ok()?;
        let noted = fs::symlink_metadata(self.origin(&key)).map_or(0, |origin| origin.mtime());
        let used = metadata.atime().max(noted);
        let (path, recipe) = self
            .any_origin(&key)
            .map(|origin| (origin.path, origin.recipe))
            .unwrap_or_default();
        Some(EntryInfo {
            file: self.entry(&key),
            key,
            path,
            recipe,
            size: metadata.blocks().saturating_mul(512),
            used: used.max(0).unsigned_abs(),
        })
    }

    /// The entry is removed first: an origin without an entry is swept, an entry without one is an
    /// error.
    pub(crate) fn remove(&self, key: &str) -> Result<(), StoreError> {
        remove(&self.entry(key))?;
        remove(&self.origin(key))
    }

    /// Removes the leftovers of killed processes, entries of older versions, and links to removed entries. The store's lock
    /// must be held, so that no process is adding an entry.
    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        for name in self.names()? {
            let of = name.strip_suffix(".json").unwrap_or(&name);
            let stays = is_key(of) && self.entry(of).exists() && self.read_origin(of).is_some();
            if !stays {
                remove(&self.entries().join(&name))?;
            }
        }
        let index = self.index();
        let links = match fs::read_dir(&index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            links => links.map_err(at(&index))?,
        };
        for link in links {
            let link = link.map_err(at(&index))?.path();
            let key = fs::read_link(&link).unwrap_or_default();
            if !self.entries().join(key).is_file() {
                remove(&link)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn is_key(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
