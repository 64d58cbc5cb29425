//! Finds an entry, checks it, and records its use.

use std::fs::{self, File, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hugetext_leaf::FileId;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use crate::error::{StoreError, at};
use crate::seal::{Found, Origin};
use crate::shelf::Shelf;
use crate::store::{Entry, Original, Store};
use crate::{identity, trust};

/// Minimum time before an entry's last use is recorded again.
const USE_PRECISION: Duration = Duration::from_secs(3600);

impl Store {
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
    pub(crate) fn usable(
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
                    let _ = shelf.write_origin(key, &Origin { seal, ..origin });
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

    /// Records the use of an entry as the time of its metadata file, because setting the entry's
    /// own time would break its seal. For entries of other users, relatime records it.
    fn mark_used(&self, origin: &Path) {
        let used = fs::symlink_metadata(origin).and_then(|metadata| metadata.modified());
        let recent = SystemTime::now()
            .duration_since(used.unwrap_or(UNIX_EPOCH))
            .is_ok_and(|age| age < USE_PRECISION);
        if recent || !self.is_writable() {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: now.as_secs().cast_signed(),
                tv_nsec: 0,
            },
        };
        // If the use cannot be recorded, the store evicts the wrong entry at worst.
        let _ = utimensat(CWD, origin, &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}
