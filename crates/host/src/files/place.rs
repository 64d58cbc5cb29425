//! Where a daemon of root puts files, although others may write there: its own new file takes the name, and no link
//! that another user could have made is followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, open, openat, readlinkat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

/// The kernel follows as many links (MAXSYMLINKS).
const MAX_LINKS: u32 = 40;

/// A name in a directory that was found without a link of another user.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place at `path`, whose directory must exist.
    pub fn at(path: &Path) -> io::Result<Place> {
        let path = std::path::absolute(path)?;
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::ISDIR.into());
        };
        Ok(Place {
            directory: directory_at(directory)?,
            name: name.to_owned(),
        })
    }

    /// Puts a new file there in one step. What had the name loses it: a link is not followed, and a file of
    /// others is not written.
    pub fn put(&self, content: &[u8], mode: u32) -> io::Result<()> {
        let mut new = OsString::from(".");
        new.push(&self.name);
        new.push(".new");
        // What was left behind by a daemon that was killed.
        self.unlink(&new)?;
        let put = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(content)?;
            fchmod(&file, Mode::from_raw_mode(mode))?;
            file.sync_all()?;
            Ok(renameat(
                &self.directory,
                &new,
                &self.directory,
                &self.name,
            )?)
        };
        put().inspect_err(|_: &io::Error| {
            let _ = self.unlink(&new);
        })
    }

    /// Takes the name away, if there is one.
    pub fn remove(&self) -> io::Result<()> {
        self.unlink(&self.name)
    }

    /// What has the name, without following a link.
    pub fn look(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, Mode::empty())?)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }
}

/// Opens the directory at an absolute path, part by part. openat2(2) would say less of who made a link, and the
/// sandbox of a service may refuse it.
fn directory_at(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || open("/", flags, Mode::empty());
    let mut parts: VecDeque<OsString> = parts_of(path).collect();
    let mut at = root()?;
    let mut links = 0;
    while let Some(part) = parts.pop_front() {
        let error = match openat(&at, &part, flags, Mode::empty()) {
            Ok(next) => {
                at = next;
                continue;
            }
            Err(error) => error,
        };
        let there = statat(&at, &part, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(there.st_mode) != FileType::Symlink {
            return Err(error.into());
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if !is_own(&there) || !is_closed(at.as_fd())? {
            let reason = "a symbolic link on the way could be another user's";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let target = readlinkat(&at, &part, Vec::new())?.into_bytes();
        let target = PathBuf::from(OsString::from_vec(target));
        if target.is_absolute() {
            at = root()?;
        }
        for part in parts_of(&target).collect::<Vec<_>>().into_iter().rev() {
            parts.push_front(part);
        }
    }
    Ok(at)
}

fn parts_of(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::from_bytes(b"..").to_owned()),
        _ => None,
    })
}

/// Whether it belongs to root or to this user.
fn is_own(there: &Stat) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&there.st_uid)
}

/// Whether no other user can put a link into a directory, or give another name to one that is not theirs.
fn is_closed(directory: impl AsFd) -> io::Result<bool> {
    const STICKY: u32 = 0o1000;
    let there = fstat(directory)?;
    Ok(is_own(&there) && (there.st_mode & 0o022 == 0 || there.st_mode & STICKY != 0))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    fn put(path: &Path) -> io::Result<()> {
        Place::at(path)?.put(b"new", 0o644)
    }

    #[test]
    fn a_new_file_takes_the_name_and_the_target_of_a_link_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (precious, name) = (
            directory.path().join("precious"),
            directory.path().join("metrics.prom"),
        );
        fs::write(&precious, "old").unwrap();
        symlink(&precious, &name).unwrap();
        // Names that the new file could take before.
        symlink(&precious, directory.path().join(".metrics.prom.new")).unwrap();
        put(&name).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"old");
        assert_eq!(fs::read(&name).unwrap(), b"new");
        assert!(!name.is_symlink());
        assert_eq!(name.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        assert!(put(directory.path()).is_err(), "a directory");
    }

    #[test]
    fn only_links_that_nobody_else_could_have_made_lead_on() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::create_dir(at("others")).unwrap();
        for link in ["link", "others/link"] {
            symlink(at("real"), at(link)).unwrap();
        }
        put(&at("link/file")).unwrap();
        assert!(at("real/file").exists());
        fs::set_permissions(at("others"), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = put(&at("others/link/file")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(at("others"), fs::Permissions::from_mode(0o755)).unwrap();
        put(&at("others/link/file")).unwrap();
        if chown(at("others"), Some(4242), None).is_err() {
            return println!("skipped: only root can change the owner of a file");
        }
        assert!(
            put(&at("others/link/file")).is_err(),
            "the directory of another"
        );
        put(&at("others/file")).unwrap();
        lchown(at("link"), Some(4242), None).unwrap();
        assert!(put(&at("link/file")).is_err(), "the link of another");
    }
}
