//! A tmpfs that processes of every mount namespace find at the same path, read-only.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hugetext_leaf::Filesystem;
use rustix::fs::{
    AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fstat, mkdirat, openat, statx,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::filesystem::filesystem_of;
use super::lock::{lock_file, open_lock};
use super::namespace::set_read_only;
use crate::listed::mount_infos;

use crate::processes::Pid;

/// A tmpfs at a path of this machine. Whoever finds it there can only read it, root included. This
/// value alone writes to it, through a mount without a path.
///
/// It takes huge pages where they are asked for (huge=advise), so that small files stay small. It
/// lives until it is unmounted.
#[derive(Debug)]
pub struct PublicTmpfs {
    path: PathBuf,
    writable: OwnedFd,
}

impl PublicTmpfs {
    /// The tmpfs at `path`, an absolute path. It is mounted if it is not there yet. Needs
    /// CAP_SYS_ADMIN. An error too if another user could change a directory above it.
    pub fn at(path: &Path) -> io::Result<PublicTmpfs> {
        if let Some(found) = PublicTmpfs::found(path)? {
            return Ok(found);
        }
        let root = File::open("/")?;
        let above = directory(root.as_fd(), path.parent().unwrap_or(path), true)?;
        // Two that mount at once would cover each other's files.
        let _lock = locked(&above, path)?;
        let place = directory(root.as_fd(), path, true)?;
        if !is_mounted(&place)? {
            let tree = detached()?;
            set_read_only(&tree, true)?;
            attach(&tree, &place)?;
        }
        PublicTmpfs::found(path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The tmpfs at `path`, if it is mounted there. Needs CAP_SYS_ADMIN.
    pub fn found(path: &Path) -> io::Result<Option<PublicTmpfs>> {
        let place = match directory(File::open("/")?.as_fd(), path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            place => place?,
        };
        if !is_mounted(&place)? {
            return Ok(None);
        }
        let writable = copy_of(&place)?;
        set_read_only(&writable, false)?;
        Ok(Some(PublicTmpfs {
            path: path.to_owned(),
            writable,
        }))
    }

    /// The directory, for writing.
    pub fn writable(&self) -> BorrowedFd<'_> {
        self.writable.as_fd()
    }

    /// A directory in it that everybody may read. It is made if it is missing.
    pub fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        directory(self.writable(), Path::new(name), true)
    }

    /// The same as everybody finds it, read-only; it must exist.
    pub fn seen(&self, name: &str) -> io::Result<OwnedFd> {
        directory(File::open("/")?.as_fd(), &self.path.join(name), false)
    }

    /// A directory of it as the process `pid` finds it at the same path: files opened through it have
    /// that path in /proc/PID/maps. If the process is in another mount namespace that lacks the
    /// tmpfs, this directory alone is mounted there too: a container sees nothing that is not its own. An error if its
    /// directories cannot be made, or lead through a symbolic link; and for a process in a chroot, where a mount
    /// would keep the directory busy for longer than the process lives.
    pub fn shown_to(&self, pid: Pid, name: &str) -> io::Result<OwnedFd> {
        let own = self.seen(name)?;
        let wanted = fstat(&own)?;
        let is_it = |place: &OwnedFd| -> io::Result<bool> {
            let found = fstat(place)?;
            Ok((found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino))
        };
        let root = File::open(format!("/proc/{pid}/root"))?;
        let path = self.path.join(name);
        if let Ok(place) = directory(root.as_fd(), &path, false)
            && is_it(&place)?
        {
            return Ok(place);
        }
        if is_chroot(pid, &root)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let place = directory(root.as_fd(), &path, true)?;
        let tree = copy_of(&own)?;
        let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
        let enter = || {
            // SAFETY: only the root and working directory of this thread, which ends soon, become
            // its own. The file descriptor table stays shared.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
            attach(&tree, &place)
        };
        std::thread::scope(|scope| scope.spawn(enter).join())
            .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
        let place = directory(root.as_fd(), &path, false)?;
        if is_it(&place)? {
            Ok(place)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

/// Waits for others that mount at `path`, which takes them an instant. One that is stopped meanwhile makes this an error.
fn locked(above: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".lock");
    let file = open_lock(above, &name)?;
    lock_file(&file, Duration::from_secs(5))?;
    Ok(file)
}

/// Whether the root directory of a process is not that of its mount namespace.
fn is_chroot(pid: Pid, root: &File) -> io::Result<bool> {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/mnt"));
    if namespace(&pid.to_string())? != namespace("self")? {
        // The list leaves out the mount of a chroot's root directory, since its mount point lies outside.
        let mounts = mount_infos(&format!("/proc/{pid}/mountinfo"))?;
        return Ok(!mounts
            .iter()
            .any(|mount| mount.mount_point == Path::new("/")));
    }
    let place = |directory: &File| -> io::Result<(u64, u64)> {
        let stat = statx(
            directory,
            c"",
            AtFlags::EMPTY_PATH,
            StatxFlags::MNT_ID | StatxFlags::INO,
        )?;
        Ok((stat.stx_mnt_id, stat.stx_ino))
    };
    Ok(place(root)? != place(&File::open("/")?)?)
}

/// Opens a directory below `root`, and makes what is missing if it may. No part of the path may be a
/// symbolic link, and no user but its owner and root may change it.
///
/// Each part is opened by itself, so O_NOFOLLOW says all. openat2(2) would say it for the whole path, but the sandbox
/// of a service that may set no SUID bit refuses that call (systemd.exec(5), RestrictSUIDSGID=).
fn directory(root: BorrowedFd<'_>, path: &Path, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", flags, Mode::empty())?;
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        let next = match openat(&at, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                let mode = Mode::from_raw_mode(0o755);
                let is_new = match mkdirat(&at, name, mode) {
                    Ok(()) => true,
                    Err(Errno::EXIST) => false,
                    Err(error) => return Err(error.into()),
                };
                let next = openat(&at, name, flags, Mode::empty())?;
                if is_new {
                    // The umask has taken from the mode.
                    rustix::fs::fchmod(&next, mode)?;
                }
                next
            }
            opened => opened?,
        };
        let metadata = File::from(next.try_clone()?).metadata()?;
        let own = rustix::process::geteuid().as_raw();
        if metadata.mode() & 0o022 != 0 || ![0, own].contains(&metadata.uid()) {
            let path = path.display();
            let reason = format!("another user can change a directory of {path}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        at = next;
    }
    Ok(at)
}

/// Whether a directory is the root of a mounted tmpfs.
fn is_mounted(directory: &OwnedFd) -> io::Result<bool> {
    let status = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
    let is_root = status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(is_root && filesystem_of(directory)? == Filesystem::Tmpfs)
}

fn detached() -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", "hugetext")?;
    fsconfig_set_string(&context, "huge", "advise")?;
    fsconfig_set_string(&context, "mode", "0755")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", place, "", flags)?)
}

fn copy_of(mounted: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(mounted, "", flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = File::open(root.path()).unwrap();
        assert!(directory(root.as_fd(), Path::new("/one/two"), false).is_err());
        let made = directory(root.as_fd(), Path::new("/one/two"), true).unwrap();
        rustix::fs::fchmod(&made, Mode::from_raw_mode(0o777)).unwrap();
        assert!(directory(root.as_fd(), Path::new("/one/two"), true).is_err());
        assert!(directory(root.as_fd(), Path::new("/one"), false).is_ok());
    }

    #[test]
    fn a_symbolic_link_is_refused_and_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", root.path().join("one")).unwrap();
        let root = File::open(root.path()).unwrap();
        for path in ["/one", "/one/two"] {
            assert!(directory(root.as_fd(), Path::new(path), true).is_err());
        }
    }
}
