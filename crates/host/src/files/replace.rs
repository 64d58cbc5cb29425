//! Writes a file so that its path shows either the old content or all of the new.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, MemfdFlags, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, flistxattr, fsetxattr, futimens, linkat, memfd_create, openat, renameat,
};
use rustix::io::Errno;

use super::state::FileState;
use super::temporary::Temporary;

/// Why a file could not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The destination cannot be inspected.
    #[error(transparent)]
    Look(io::Error),
    /// A directory, a device, a pipe or a socket is at the destination.
    #[error("exists and is not a regular file")]
    Irregular,
    /// No file can be created in the directory of the destination.
    #[error("cannot make a file in {directory}: {source}")]
    Create {
        /// The directory.
        directory: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The content could not be written.
    #[error("cannot write the new file: {0}")]
    Write(io::Error),
    /// Owner, mode, times or an extended attribute could not be copied.
    #[error("cannot copy its {what}: {source}")]
    Metadata {
        /// The attribute.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file at the destination is not the one to be replaced, or was written since.
    #[error("changed while it was read")]
    Changed,
    /// The finished file could not be put into place.
    #[error("cannot put the new file into place: {0}")]
    Rename(io::Error),
}

impl ReplaceError {
    /// The kernel's error, if there was one.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            ReplaceError::Create { source, .. } | ReplaceError::Metadata { source, .. } => {
                Some(source)
            }
            ReplaceError::Look(source)
            | ReplaceError::Write(source)
            | ReplaceError::Rename(source) => Some(source),
            ReplaceError::Irregular | ReplaceError::Changed => None,
        }
    }
}

/// How many dangling links are followed; the kernel follows 40 (MAXSYMLINKS).
const MAX_LINKS: u32 = 40;

/// A file without a name in `directory`, open for reading and writing. It is gone when the last
/// process that has it open or mapped ends, for whatever reason (O_TMPFILE).
pub fn unnamed_file(directory: impl AsFd) -> io::Result<File> {
    Ok(open_unnamed(directory, Mode::RWXU)?)
}

/// A file in memory (memfd_create(2)) with `flags`, and with `newer`, which kernels before 6.3 neither know nor need: whether
/// anybody may execute it as a program (vm.memfd_noexec).
pub fn memory_file(name: &str, flags: MemfdFlags, newer: MemfdFlags) -> io::Result<File> {
    let flags = flags | MemfdFlags::CLOEXEC;
    let memfd = match memfd_create(name, flags | newer) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    };
    Ok(memfd?.into())
}

fn open_unnamed(directory: impl AsFd, mode: Mode) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(directory, ".", flags, mode).map(File::from)
}

/// A new file in the directory of its destination. If the filesystem has files without a name
/// (O_TMPFILE) and proc is mounted, which can name one later, the file has no name: nothing is left
/// behind if the program ends before [`Replacement::commit`], for whatever reason. Otherwise it has
/// a name that is removed when the program ends, except by SIGKILL.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    named: Option<Temporary>,
    directory: File,
    destination: PathBuf,
    name: OsString,
    /// The file that was at the destination when this value was made.
    there: Option<Metadata>,
}

impl Replacement {
    /// A file that will become `destination`, or the target of `destination` if that is a symbolic
    /// link; the target may be missing. Only a regular file can be replaced.
    pub fn new(destination: &Path) -> Result<Replacement, ReplaceError> {
        let (destination, there) = resolve(destination)?;
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            return Err(ReplaceError::Irregular);
        }
        let name = destination.file_name().map(OsString::from);
        let name = name.filter(|_| !destination.as_os_str().as_bytes().ends_with(b"/"));
        let name = name.ok_or_else(|| ReplaceError::Look(Errno::ISDIR.into()))?;
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
        let unnamed = if Path::new("/proc/self/fd").exists() {
            open_unnamed(&directory, Mode::RUSR | Mode::WUSR)
        } else {
            Err(Errno::OPNOTSUPP)
        };
        let (file, named) = match unnamed {
            Ok(file) => (file, None),
            // open(2), O_TMPFILE: the filesystem does not support it, or the kernel does not know
            // the flag.
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
            destination,
            name,
            there,
        })
    }

    /// The destination, with symbolic links resolved.
    pub fn destination(&self) -> &Path {
        &self.destination
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
        self.copy_rest(old, 0o7777, |_| true)
    }

    /// As [`Replacement::copy_metadata`], but without the attributes that give rights to processes
    /// that run the file: set-id bits and capabilities.
    pub fn copy_harmless_metadata(&self, old: &File) -> Result<(), ReplaceError> {
        self.copy_owner(old)?;
        self.copy_rest(old, 0o1777, |name| name != b"security.capability")
    }

    /// Gives the new file the owner of `old`; needs CAP_CHOWN unless the owner is the caller.
    pub fn copy_owner(&self, old: &File) -> Result<(), ReplaceError> {
        let metadata = old.metadata().map_err(failed("metadata"))?;
        let (uid, gid) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        fchown(&self.file, Some(uid), Some(gid)).map_err(|e| failed("owner")(e.into()))
    }

    /// Gives the new file the group of `old`; needs CAP_CHOWN unless the caller is in it.
    pub fn copy_group(&self, old: &File) -> Result<(), ReplaceError> {
        let metadata = old.metadata().map_err(failed("metadata"))?;
        let group = Gid::from_raw(metadata.gid());
        fchown(&self.file, None, Some(group)).map_err(|e| failed("group")(e.into()))
    }

    /// Gives the new file the attributes of `old` that decide about access, except for its owner
    /// and the right to write, which nobody gets: mode, ACL and security label. It also copies the
    /// times. Call it after the last write, and after [`Replacement::copy_group`].
    pub fn copy_reading_rights(&self, old: &File) -> Result<(), ReplaceError> {
        let decides = |name: &[u8]| name.starts_with(b"security.") || name.starts_with(b"system.");
        let metadata = old.metadata().map_err(failed("metadata"))?;
        // The mode comes last: it is also the mask of the ACL.
        self.copy_xattrs(old, decides)?;
        let mode = Mode::from_raw_mode(metadata.mode() & 0o555);
        fchmod(&self.file, mode).map_err(|e| failed("mode")(e.into()))?;
        futimens(&self.file, &timestamps(&metadata)).map_err(|e| failed("times")(e.into()))
    }

    fn copy_rest(
        &self,
        old: &File,
        mode: u32,
        xattrs: fn(&[u8]) -> bool,
    ) -> Result<(), ReplaceError> {
        let metadata = old.metadata().map_err(failed("metadata"))?;
        let mode = Mode::from_raw_mode(metadata.mode() & mode);
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

    /// Gives the new file the mode of the file at the destination, and its owner if that is
    /// permitted. If no file is at the destination, every user may read the new one.
    fn keep_access(&self) -> Result<(), ReplaceError> {
        let mode = match &self.there {
            Some(there) => {
                let (uid, gid) = (Uid::from_raw(there.uid()), Gid::from_raw(there.gid()));
                // Otherwise the file belongs to the caller, like any file that a user writes.
                let _ = fchown(&self.file, Some(uid), Some(gid));
                there.mode() & 0o777
            }
            None => 0o644,
        };
        let set = self.file.set_permissions(Permissions::from_mode(mode));
        set.map_err(failed("mode"))
    }

    /// Makes the content durable and renames the file over its destination.
    pub fn commit(self) -> Result<File, ReplaceError> {
        self.place(None)
    }

    /// As [`Replacement::commit`], but as `name` in the directory of the destination.
    pub fn commit_as(self, name: &OsStr) -> Result<File, ReplaceError> {
        Replacement {
            name: name.to_owned(),
            ..self
        }
        .place(None)
    }

    /// As [`Replacement::commit`], but only if the destination is still the file described by `old`
    /// and was not written since.
    pub fn commit_over(self, old: &Metadata) -> Result<File, ReplaceError> {
        self.place(Some(old))
    }

    /// Resolves against the already-open directory, so a renamed parent cannot redirect us.
    fn place(self, old: Option<&Metadata>) -> Result<File, ReplaceError> {
        self.file.sync_all().map_err(ReplaceError::Rename)?;
        match &self.named {
            Some(named) => self.rename(named, old)?,
            // linkat() cannot replace a file, so the new file first gets a temporary name.
            None => self.rename(&self.link()?, old)?,
        }
        rustix::fs::fsync(&self.directory).map_err(|error| ReplaceError::Rename(error.into()))?;
        Ok(self.file)
    }

    /// Gives the file a temporary name.
    fn link(&self) -> Result<Temporary, ReplaceError> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let parent = self.destination.parent().unwrap_or(Path::new("."));
        let taken = Temporary::take(parent, |name| {
            let follow = AtFlags::SYMLINK_FOLLOW;
            Ok(linkat(CWD, own.as_str(), &self.directory, name, follow)?)
        });
        taken.map(|((), named)| named).map_err(ReplaceError::Rename)
    }

    /// Compares the file to be replaced with `old`, as late as possible.
    fn rename(&self, from: &Temporary, old: Option<&Metadata>) -> Result<(), ReplaceError> {
        if let Some(old) = old {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let there = openat(&self.directory, &self.name, flags, Mode::empty());
            let there = there
                .ok()
                .and_then(|there| File::from(there).metadata().ok());
            let old = FileState::of(old);
            if !there.is_some_and(|there| FileState::of(&there).has_content_of(&old)) {
                return Err(ReplaceError::Changed);
            }
        }
        renameat(&self.directory, from.name(), &self.directory, &self.name)
            .map_err(|error| ReplaceError::Rename(error.into()))
    }
}

/// Puts `content` at `destination`, as [`Replacement::new`] understands it. An existing file keeps
/// its mode and, if that is permitted, its owner. A new file can be read by every user.
pub fn replace_with(destination: &Path, content: &[u8]) -> Result<(), ReplaceError> {
    let new = Replacement::new(destination)?;
    new.file().write_all(content).map_err(ReplaceError::Write)?;
    new.keep_access()?;
    new.commit().map(drop)
}

/// The path that `path` resolves to, and the file there. The kernel follows the links, with its
/// rules about other users' links (proc(5), protected_symlinks); this function only reads the
/// result.
fn resolve(path: &Path) -> Result<(PathBuf, Option<Metadata>), ReplaceError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let target = fs::read_link(&path).ok();
        match (fs::metadata(&path), target) {
            (Ok(there), _) => {
                let found = fs::canonicalize(&path).map_err(ReplaceError::Look)?;
                let again = fs::symlink_metadata(&found).map_err(ReplaceError::Look)?;
                let is_found = FileState::of(&again).has_content_of(&FileState::of(&there));
                return if is_found || !there.is_file() {
                    Ok((found, Some(there)))
                } else {
                    Err(ReplaceError::Changed)
                };
            }
            (Err(error), _) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ReplaceError::Look(error));
            }
            (Err(_), Some(target)) => {
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            (Err(_), None) => return Ok((path, None)),
        }
    }
    Err(ReplaceError::Look(Errno::LOOP.into()))
}

/// The error for a part of the metadata that could not be copied.
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
    use std::os::unix::fs::{FileTypeExt, symlink};

    use rustix::fs::FileType;

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
    fn links_are_followed_modes_kept_and_devices_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("private"), "old").unwrap();
        fs::set_permissions(at("private"), Permissions::from_mode(0o600)).unwrap();
        symlink("private", at("link")).unwrap();
        symlink("new", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for (name, target, mode) in [("link", "private", 0o600), ("dangling", "new", 0o644)] {
            replace_with(&at(name), name.as_bytes()).unwrap();
            assert!(at(name).is_symlink());
            assert_eq!(fs::read_to_string(at(target)).unwrap(), name);
            assert_eq!(at(target).metadata().unwrap().mode() & 0o7777, mode);
        }
        let pipe = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, pipe, 0).unwrap();
        symlink("pipe", at("to-pipe")).unwrap();
        for name in ["pipe", "to-pipe", "."] {
            let refused = replace_with(&at(name), b"");
            assert!(matches!(refused, Err(ReplaceError::Irregular)), "{name}");
        }
        assert!(at("pipe").metadata().unwrap().file_type().is_fifo());
        assert!(replace_with(&at("loop"), b"").is_err());
    }

    #[test]
    fn what_was_put_there_meanwhile_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (path, upgrade) = (
            directory.path().join("program"),
            directory.path().join("upgrade"),
        );
        fs::write(&path, "old").unwrap();
        fs::write(&upgrade, "new").unwrap();
        let old = path.metadata().unwrap();
        let replacement = Replacement::new(&path).unwrap();
        fs::rename(&upgrade, &path).unwrap();
        let placed = replacement.commit_over(&old);
        assert!(matches!(placed, Err(ReplaceError::Changed)));
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let current = path.metadata().unwrap();
        let replacement = Replacement::new(&path).unwrap();
        assert!(replacement.commit_over(&current).is_ok());
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
