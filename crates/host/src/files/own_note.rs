//! A number in a small file that only one user writes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::make_directories;

/// A number and the time when it was written, in a file. Nobody waits for it, and no link is followed.
#[derive(Debug)]
pub struct OwnNote(PathBuf);

impl OwnNote {
    /// The note at a path, which need not exist.
    pub fn at(path: PathBuf) -> OwnNote {
        OwnNote(path)
    }

    /// The number and its time. An error if there is none, or if another user wrote it.
    pub fn read(&self) -> io::Result<(u64, SystemTime)> {
        let file = self.open(OpenOptions::new().read(true))?;
        let metadata = file.metadata()?;
        if metadata.uid() != geteuid().as_raw() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut number = [0; size_of::<u64>()];
        file.read_exact_at(&mut number, 0)?;
        Ok((u64::from_ne_bytes(number), metadata.modified()?))
    }

    /// Writes the number, and makes the directory if it is missing.
    pub fn write(&self, number: u64) -> io::Result<()> {
        let mut create = OpenOptions::new();
        create.write(true).create(true).mode(0o600);
        let file = self
            .open(&mut create)
            .or_else(|error| match self.0.parent() {
                Some(directory) if error.kind() == ErrorKind::NotFound => {
                    make_directories(directory, 0o755)?;
                    self.open(&mut create)
                }
                _ => Err(error),
            })?;
        file.write_all_at(&number.to_ne_bytes(), 0)
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = careful.bits().cast_signed();
        options.custom_flags(flags).open(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_number_is_read_again_and_damage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/note");
        let note = OwnNote::at(path.clone());
        assert!(note.read().is_err());
        note.write(7).unwrap();
        note.write(8).unwrap();
        assert_eq!(note.read().unwrap().0, 8);
        fs::write(&path, "short").unwrap();
        assert!(note.read().is_err());
    }

    #[test]
    fn no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [other, link] = ["other", "link"].map(|name| directory.path().join(name));
        fs::write(&other, "something long enough").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let note = OwnNote::at(link);
        assert!(note.write(7).is_err() && note.read().is_err());
        assert_eq!(fs::read(&other).unwrap(), b"something long enough");
    }
}
