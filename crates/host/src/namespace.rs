//! A mount namespace of this process's own, in which a file may appear at the path of another.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chroot, fchdir, getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space,
    unshare_unsafe,
};
use serde::{Deserialize, Serialize};

use crate::child::{ChildError, in_child};

/// How a process comes by a mount namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Namespace {
    /// CLONE_NEWNS with CAP_SYS_ADMIN: nothing else of the process changes.
    Mount,
    /// CLONE_NEWUSER and CLONE_NEWNS: the caller's user and group keep their numbers, every
    /// other owner shows as nobody, set-id programs do not change the user, and no file can be given
    /// to another group.
    User,
}

/// Why there is no mount namespace for this process.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// It has no CAP_SYS_ADMIN, and a user namespace would leave it one user and no powers.
    #[error(
        "this process is root or has capabilities, but not CAP_SYS_ADMIN, and would lose them in a \
         user namespace"
    )]
    Identity,
    /// A child process that tried could not report.
    #[error(transparent)]
    Rehearsal(#[from] ChildError),
    /// The kernel or a sandbox refuses.
    #[error("{0}")]
    Refused(String),
}

/// What decides about the namespace that a process may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    /// Whether it has CAP_SYS_ADMIN where it is.
    administers: bool,
    /// Whether it is one user other than root, in one group but for supplementary ones, and has no
    /// capability: then it is in a user namespace of its own what it was before.
    is_plain_user: bool,
}

impl Caller {
    fn this() -> io::Result<Caller> {
        let sets = capabilities(None)?;
        let (user, group) = (geteuid(), getegid());
        let held = sets.effective | sets.permitted | sets.inheritable;
        Ok(Caller {
            administers: sets.effective.contains(CapabilitySet::SYS_ADMIN),
            is_plain_user: !user.is_root()
                && user == getuid()
                && group == getgid()
                && held.is_empty(),
        })
    }

    fn namespace(self) -> Result<Namespace, NamespaceError> {
        match self {
            Caller {
                administers: true, ..
            } => Ok(Namespace::Mount),
            Caller {
                is_plain_user: true,
                ..
            } => Ok(Namespace::User),
            _ => Err(NamespaceError::Identity),
        }
    }
}

impl Namespace {
    /// The one in which this process stays who it is and may do what it may: tried out in a child,
    /// since what a sandbox refuses shows only halfway in. The caller must have one thread only.
    pub fn possible() -> Result<Namespace, NamespaceError> {
        let kind = Namespace::permitted()?;
        let entered = in_child(|| kind.enter().map_err(|error| error.to_string()))?;
        entered.map(|()| kind).map_err(NamespaceError::Refused)
    }

    /// As [`Namespace::possible`], by who the caller is alone.
    pub fn permitted() -> Result<Namespace, NamespaceError> {
        let caller = Caller::this();
        caller
            .map_err(|error| NamespaceError::Refused(error.to_string()))?
            .namespace()
    }

    /// Gives this process, which must have one thread only, a mount namespace of its own. Mounts
    /// made outside later still appear in it; those made in it appear nowhere else.
    ///
    /// An error may leave the process in a namespace in which it is nobody, so it must not go on to
    /// act for its caller: try in a child first, as [`Namespace::possible`] does.
    pub fn enter(self) -> io::Result<()> {
        match self {
            Namespace::Mount => {
                unshare(UnshareFlags::NEWNS)?;
                keep_mounts_in()?;
            }
            // The kernel sees to it that mounts made here do not get out (mount_namespaces(7)).
            Namespace::User => {
                let (user, group) = (geteuid().as_raw(), getegid().as_raw());
                unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
                fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
                // A group map needs setgroups() off (user_namespaces(7)).
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
            }
        }
        Ok(())
    }
}

/// Has mounts of this process's new namespace appear nowhere else. They are reached by the mount at its
/// root. The root directory of a chroot need not be a mount: the kernel then goes to the namespace's root
/// for us (setns(2)), and this process enters its own root and working directory again.
fn keep_mounts_in() -> io::Result<()> {
    let receive = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match mount_change("/", receive) {
        Err(Errno::INVAL) => {}
        changed => return Ok(changed?),
    }
    let directory = |path| open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let (root, working) = (directory("/")?, directory(".")?);
    let own = File::open("/proc/self/ns/mnt")?;
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let changed = mount_change("/", receive);
    fchdir(&root)?;
    chroot(".")?;
    fchdir(&working)?;
    Ok(changed?)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the file descriptor table stays shared, which is all that the contract asks about.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// A file as a look at it found it: its inode, and when that and its content last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    /// The state of which `metadata` tells.
    pub fn of(metadata: &Metadata) -> FileState {
        FileState {
            inode: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file opened by path alone, to be checked and then mounted: what is mounted is what was
/// checked, whatever becomes of the path meanwhile.
#[derive(Debug)]
pub struct Mountable(File);

impl Mountable {
    /// Opens `path`, which is no symbolic link, without reading it (O_PATH). To be mounted, it must
    /// be opened inside the namespace.
    pub fn open(path: &Path) -> io::Result<Mountable> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Mountable(open(path, flags, Mode::empty())?.into()))
    }

    /// Whether it is the file with this device and inode.
    pub fn is(&self, inode: (u64, u64)) -> bool {
        let metadata = self.0.metadata();
        metadata.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == inode)
    }

    /// Whether it is the file that was looked at, and neither it nor its inode has changed since, as
    /// far as its times tell.
    pub fn is_still(&self, state: FileState) -> bool {
        let metadata = self.0.metadata();
        metadata.is_ok_and(|metadata| FileState::of(&metadata) == state)
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
fn make_read_only(tree: impl AsFd) -> io::Result<()> {
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

/// Lets nobody write any more to the filesystem that this process has mounted on `directory`.
pub fn protect(directory: &Path) -> io::Result<()> {
    make_read_only(&Mountable::open(directory)?.0)
}

/// Whether the caller is root, by its effective user.
pub fn is_root() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_loses_what_it_may_do() {
        let namespace = |administers, is_plain_user| {
            let caller = Caller {
                administers,
                is_plain_user,
            };
            caller.namespace().ok()
        };
        assert_eq!(namespace(true, false), Some(Namespace::Mount));
        assert_eq!(namespace(true, true), Some(Namespace::Mount));
        assert_eq!(namespace(false, true), Some(Namespace::User));
        assert_eq!(namespace(false, false), None);
    }
    #[test]
    fn a_file_that_was_written_in_place_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, "old").unwrap();
        let state = FileState::of(&fs::metadata(&path).unwrap());
        let file = Mountable::open(&path).unwrap();
        assert!(file.is_still(state));
        fs::write(&path, "newer").unwrap();
        assert!(!file.is_still(state));
        assert!(file.is(state.inode));
    }
}
