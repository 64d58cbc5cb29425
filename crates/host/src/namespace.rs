//! A mount namespace of this process's own, in which a file may appear at the path of another.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::Serialize;

/// How the namespace was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Namespace {
    /// CLONE_NEWNS with CAP_SYS_ADMIN: nothing else of the process changes.
    Mount,
    /// CLONE_NEWUSER and CLONE_NEWNS: the caller's user and group keep their numbers, every
    /// other owner shows as nobody, and set-id programs do not change the user.
    User,
}

/// Gives this process, which must have one thread only, a mount namespace of its own. Mounts made
/// outside later still appear in it; those made in it appear nowhere else.
///
/// Fails where the kernel or a sandbox refuses namespaces; the process is as before then.
pub fn enter_mount_namespace() -> io::Result<Namespace> {
    match unshare(UnshareFlags::NEWNS) {
        Ok(()) => {
            let receive = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
            mount_change("/", receive)?;
            Ok(Namespace::Mount)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            let (user, group) = (user.as_raw(), group.as_raw());
            fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
            // A group map needs setgroups() off (user_namespaces(7)).
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
            Ok(Namespace::User)
        }
        Err(error) => Err(error),
    }
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the file descriptor table stays shared, which is all that the contract asks about.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// A file opened by path alone, to be checked and then mounted: what is mounted is what was
/// checked, whatever becomes of the path meanwhile.
#[derive(Debug)]
pub struct Mountable(OwnedFd);

impl Mountable {
    /// Opens `path`, which is no symbolic link, without reading it (O_PATH). To be mounted, it must
    /// be opened inside the namespace.
    pub fn open(path: &Path) -> io::Result<Mountable> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Mountable(open(path, flags, Mode::empty())?))
    }

    /// Whether it is the file with this device and inode.
    pub fn is(&self, inode: (u64, u64)) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == inode)
    }

    /// Shows this file, read-only, in place of `target` (Linux 5.12 for mount_setattr(2)).
    pub fn mount_over(&self, target: &Mountable) -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = open_tree(&self.0, c"", flags)?;
        make_read_only(&tree)?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(&tree, c"", &target.0, c"", flags)?)
    }
}

/// Takes away what [`Mountable::mount_over`] put at `path`; who uses it still, keeps it.
pub fn uncover(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH)?)
}

/// Sets MOUNT_ATTR_RDONLY; unlike a remount it leaves the other attributes, which may be locked.
fn make_read_only(tree: &OwnedFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a NUL-terminated string, and the kernel reads as many bytes of
    // `attributes` as the size says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Mounts a tmpfs whose files are made of huge pages (huge=always), at most `size` bytes.
pub fn mount_huge_tmpfs(directory: &Path, size: u64) -> io::Result<()> {
    let options = format!("huge=always,mode=0700,size={size}");
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(
        "hugetext",
        directory,
        "tmpfs",
        flags,
        options.as_c_str(),
    )?)
}

/// Whether the caller is root, by its effective user.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
