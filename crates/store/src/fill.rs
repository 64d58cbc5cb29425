//! Makes an entry: from the bytes of its original in one state, and named by its own bytes.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use hugetext_host::{Copier, Replacement, has_writer};

use crate::error::{StoreError, WriteError, at};
use crate::identity::{self, Identity};
use crate::seal::{FORMAT, Origin, Seal};
use crate::shelf::Shelf;
use crate::store::{Entry, Original, Store};
use crate::trust;

/// How long to wait until the time of a file's last change has passed: a little more than a second, the
/// coarsest unit of times that filesystems keep.
const SETTLED_WITHIN: Duration = Duration::from_millis(1100);

/// The name by which an unfinished file is created, where the filesystem asks for one.
const UNFINISHED: &str = "unfinished";

/// The bytes from which an entry is made.
enum Source<'o> {
    /// The original, in the state that its identity names. Its content with its owner is known if nobody could
    /// have written it unseen.
    Original(&'o File, Option<Identity>),
    /// A copy of it that no other process can open.
    Snapshot(Replacement),
}

impl Source<'_> {
    fn file(&self) -> &File {
        match self {
            Source::Original(file, _) => file,
            Source::Snapshot(copy) => copy.file(),
        }
    }

    /// A second identity that leads to the same entry: containers see the file through an overlay.
    fn known_by_content(&self) -> Option<&Identity> {
        match self {
            Source::Original(_, by_content) => by_content.as_ref(),
            Source::Snapshot(_) => None,
        }
    }
}

impl Store {
    /// The entry made from `original` by `recipe`. If no trusted entry exists, `write` fills a new
    /// one: from the first file that it is given, into the second. Waits for another process that is adding an
    /// entry.
    pub fn fill(
        &self,
        original: Original<'_>,
        recipe: &str,
        mut write: impl FnMut(&File, &File) -> Result<(), WriteError>,
    ) -> Result<Entry, StoreError> {
        settle(original)?;
        let _lock = self.lock()?;
        if let Ok(Some(entry)) = self.find(original, recipe) {
            return Ok(entry);
        }
        let before = original.file.metadata().map_err(at(original.path))?;
        let [open, private] = &self.shelves;
        let shelf = if trust::is_open_to_all(original.path) {
            open
        } else {
            private.create(0o700)?;
            private
        };
        let source = source(original, shelf)?;
        let other = source.known_by_content().map(|other| other.name(recipe));
        let known = other.as_ref().and_then(|name| shelf.linked(name));
        let known = known.filter(|key| matches!(self.usable(shelf, key, &before), Ok(Some(_))));
        let key = match known {
            Some(key) => {
                ensure_unchanged(original)?;
                key
            }
            None => {
                self.make_room(before.len())?;
                self.make(shelf, original, recipe, |new| write(source.file(), new))?
            }
        };
        for name in other.into_iter().chain([original.identity.name(recipe)]) {
            shelf.link(&name, &key)?;
        }
        self.usable(shelf, &key, &before)?
            .ok_or(StoreError::Changed)
    }

    /// Writes an entry. Returns its name.
    fn make(
        &self,
        shelf: &Shelf,
        original: Original<'_>,
        recipe: &str,
        write: impl FnOnce(&File) -> Result<(), WriteError>,
    ) -> Result<String, StoreError> {
        let path = shelf.entry(UNFINISHED);
        let new = Replacement::new(&path)?;
        write(new.file()).map_err(StoreError::Write)?;
        if rustix::process::geteuid().is_root() {
            new.copy_group(original.file)?;
        }
        new.copy_reading_rights(original.file)?;
        // A later change gives the original another identity.
        ensure_unchanged(original)?;
        let key = identity::key(new.file(), recipe).map_err(at(&path))?;
        let metadata = original.file.metadata().map_err(at(original.path))?;
        if !matches!(self.usable(shelf, &key, &metadata), Ok(Some(_))) {
            let origin = Origin {
                path: original.path.to_string_lossy().into_owned(),
                recipe: recipe.to_owned(),
                format: FORMAT,
                seal: None,
            };
            put(shelf, &key, new, origin)?;
        }
        Ok(key)
    }
}

fn ensure_unchanged(original: Original<'_>) -> Result<(), StoreError> {
    match original.identity.is_still_of(original.file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Changed),
        Err(error) => Err(at(original.path)(error)),
    }
}

/// The bytes that the identity of `original` names.
fn source<'o>(original: Original<'o>, shelf: &Shelf) -> Result<Source<'o>, StoreError> {
    let failed = || at(original.path);
    let Some(content) = original.identity.content() else {
        // A process that has mapped the file could go on writing without a change of ctime. Only the file's
        // owner and root can find out. For all others, what the file's owner writes concerns this file alone.
        let by_content = match has_writer(original.file) {
            Ok(true) => return Err(StoreError::OpenForWriting),
            Ok(false) => Some(Identity::of_content(original.file).map_err(failed())?),
            Err(_) => None,
        };
        return Ok(Source::Original(original.file, by_content));
    };
    let snapshot = Replacement::new(&shelf.entry(UNFINISHED))?;
    let len = original.file.metadata().map_err(failed())?.len();
    snapshot.file().set_len(len).map_err(failed())?;
    let copier = Copier::new(original.file, snapshot.file());
    let copied = copier.and_then(|mut copier| copier.copy(0..len, 0));
    match copied {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(StoreError::Changed);
        }
        copied => copied.map_err(failed())?,
    }
    if identity::hash(snapshot.file()).map_err(failed())? != *content {
        return Err(StoreError::Changed);
    }
    Ok(Source::Snapshot(snapshot))
}

/// Gives an entry its name. Its origin is recorded before that, so that no entry of unknown
/// origin exists. Its seal is recorded afterwards, since getting a name changes ctime.
fn put(shelf: &Shelf, key: &str, new: Replacement, origin: Origin) -> Result<(), StoreError> {
    shelf.remove(key)?;
    shelf.write_origin(key, &origin)?;
    // fs-verity accepts a file only if no process has it open for writing.
    drop(new.commit_as(key.as_ref())?);
    let path = shelf.entry(key);
    let seal = Some(Seal::set(&path).map_err(at(&path))?);
    shelf.write_origin(key, &Origin { seal, ..origin })
}

/// Waits until a change of the file that comes while it is copied will give it another identity. Mostly
/// that is so at once.
fn settle(original: Original<'_>) -> Result<(), StoreError> {
    if original.identity.is_settled() {
        return Ok(());
    }
    let begun = Instant::now();
    while begun.elapsed() < SETTLED_WITHIN {
        let now = Identity::of(original.file).map_err(at(original.path))?;
        if now != *original.identity {
            return Err(StoreError::Changed);
        }
        if now.is_settled() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(StoreError::JustChanged)
}

#[cfg(test)]
mod tests {
    use std::fs;
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
}
