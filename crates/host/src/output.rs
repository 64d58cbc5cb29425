//! Writing a file so that its path shows either the old content or all of the new.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown,
    fgetxattr, flistxattr, fsetxattr, futimens, linkat, openat, renameat,
};
use rustix::io::Errno;

use crate::temporary::Temporary;

/// Why a file could not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// No file can be made beside the destination.
    #[error("cannot make a file in {directory}: {source}")]
    Create {
        /// The directory.
        directory: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Owner, mode, times or an extended attribute could not be carried over.
    #[error("cannot carry over its {what}: {source}")]
    Metadata {
        /// Which.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The finished file could not be put into place.
    #[error("cannot put the new file into place: {0}")]
    Rename(io::Error),
}

/// A file without a name in `directory`, open for reading and writing. Gone when the last process
/// that has it open or mapped ends, however it ends (O_TMPFILE).
pub fn unnamed_file(directory: impl AsFd) -> io::Result<File> {
    Ok(open_unnamed(directory, Mode::RWXU)?)
}

fn open_unnamed(directory: impl AsFd, mode: Mode) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(directory, ".", flags, mode).map(File::from)
}

/// A new file in the directory of its destination, without a name where the filesystem has such
/// files (O_TMPFILE): then nothing is left behind if the program ends before
/// [`Replacement::commit`], however it ends. Elsewhere it has a name that goes with the program,
/// except by SIGKILL.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    named: Option<Temporary>,
    directory: File,
    destination: PathBuf,
}

impl Replacement {
    /// A file that is to become `destination`.
    pub fn new(destination: &Path) -> Result<Replacement, ReplaceError> {
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let create = |source: io::Error| ReplaceError::Create {
            directory: parent.to_owned(),
            source,
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty());
        let directory = directory.map_err(|error| create(error.into()))?;
        let (file, named) = match open_unnamed(&directory, Mode::RUSR | Mode::WUSR) {
            Ok(file) => (file, None),
            // open(2), O_TMPFILE: the filesystem has none, or the kernel does not know the flag.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS) => {
                let (file, named) = Temporary::create(parent, directory.as_fd()).map_err(create)?;
                (file, Some(named))
            }
            Err(error) => return Err(create(error.into())),
        };
        Ok(Replacement {
            file,
            named,
            directory: directory.into(),
            destination: destination.to_owned(),
        })
    }

    /// The file to fill.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the new file the owner, mode, extended attributes (ACLs, capabilities and security
    /// labels among them) and times of `old`. Call it after the last write, which would clear
    /// capabilities and change the times.
    pub fn copy_metadata(&self, old: &File) -> Result<(), ReplaceError> {
        self.copy_owner(old)?;
        self.copy_rest(old, |_| true)
    }

    /// Gives the new file the owner of `old`; needs CAP_CHOWN unless that is the caller.
    pub fn copy_owner(&self, old: &File) -> Result<(), ReplaceError> {
        let metadata = old.metadata().map_err(failed("metadata"))?;
        let (uid, gid) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        fchown(&self.file, Some(uid), Some(gid)).map_err(|e| failed("owner")(e.into()))
    }

    /// Gives the new file what decides about access to `old` except its owner: mode, ACL,
    /// capabilities and security label; and its times. Call it after the last write, and after
    /// [`Replacement::copy_owner`], which clears set-id bits.
    pub fn copy_rights(&self, old: &File) -> Result<(), ReplaceError> {
        let decides = |name: &[u8]| name.starts_with(b"security.") || name.starts_with(b"system.");
        self.copy_rest(old, decides)
    }

    fn copy_rest(&self, old: &File, xattrs: fn(&[u8]) -> bool) -> Result<(), ReplaceError> {
        let metadata = old.metadata().map_err(failed("metadata"))?;
        let mode = Mode::from_raw_mode(metadata.mode() & 0o7777);
        fchmod(&self.file, mode).map_err(|e| failed("mode")(e.into()))?;
        self.copy_xattrs(old, xattrs)?;
        futimens(&self.file, &timestamps(&metadata)).map_err(|e| failed("times")(e.into()))
    }

    fn copy_xattrs(&self, old: &File, wanted: fn(&[u8]) -> bool) -> Result<(), ReplaceError> {
        let mut names = vec![0; 1 << 16];
        let len = match flistxattr(old, &mut names[..]) {
            Ok(len) => len,
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
            Err(error) => return Err(failed("extended attributes")(error.into())),
        };
        let names = names.get(..len).unwrap_or_default();
        let mut value = vec![0; 1 << 16];
        for name in names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && wanted(name))
        {
            let text = format!("extended attribute {}", String::from_utf8_lossy(name));
            let len = fgetxattr(old, name, &mut value[..]).map_err(|e| failed(&text)(e.into()))?;
            let value = value.get(..len).unwrap_or_default();
            fsetxattr(&self.file, name, value, XattrFlags::empty())
                .map_err(|e| failed(&text)(e.into()))?;
        }
        Ok(())
    }

    /// Makes the content durable and puts the file at its destination, over whatever is there.
    pub fn commit(self) -> Result<File, ReplaceError> {
        self.file.sync_all().map_err(ReplaceError::Rename)?;
        self.put_into_place().map_err(ReplaceError::Rename)?;
        rustix::fs::fsync(&self.directory).map_err(|error| ReplaceError::Rename(error.into()))?;
        Ok(self.file)
    }

    /// All by the directory that was opened first, whatever its path means by now.
    fn put_into_place(&self) -> io::Result<()> {
        let name = self.destination.file_name();
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        let rename = |from: &Temporary| {
            Ok(renameat(
                &self.directory,
                from.name(),
                &self.directory,
                name,
            )?)
        };
        if let Some(named) = &self.named {
            return rename(named);
        }
        // linkat() cannot replace, so the file gets a name of its own for the moment between.
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let parent = self.destination.parent().unwrap_or(Path::new("."));
        let ((), named) = Temporary::take(parent, |name| {
            let follow = AtFlags::SYMLINK_FOLLOW;
            Ok(linkat(CWD, own.as_str(), &self.directory, name, follow)?)
        })?;
        rename(&named)
    }
}

/// The error of a part of the metadata that could not be carried over.
fn failed(what: &str) -> impl FnOnce(io::Error) -> ReplaceError + use<> {
    let what = what.to_owned();
    move |source| ReplaceError::Metadata { what, source }
}

fn timestamps(metadata: &Metadata) -> Timestamps {
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: at(metadata.atime(), metadata.atime_nsec()),
        last_modification: at(metadata.mtime(), metadata.mtime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replaces_content_and_keeps_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        let old = File::open(&path).unwrap();
        let with_xattr = fsetxattr(&old, "user.note", b"kept", XattrFlags::empty()).is_ok();
        let before = old.metadata().unwrap();

        let new = Replacement::new(&path).unwrap();
        new.file().write_all(b"new").unwrap();
        new.copy_metadata(&old).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let file = new.commit().unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"new");
        let after = fs::metadata(&path).unwrap();
        assert_eq!(after.mode(), before.mode());
        assert_eq!(after.mtime_nsec(), before.mtime_nsec());
        if with_xattr {
            let mut value = [0; 4];
            assert_eq!(fgetxattr(&file, "user.note", &mut value[..]), Ok(4));
            assert_eq!(&value, b"kept");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn leaves_nothing_behind_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        drop(Replacement::new(&path).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(Replacement::new(Path::new("/nonexistent/program")).is_err());
    }
}
