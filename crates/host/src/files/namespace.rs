//! A mount namespace for this process alone, in which one file can appear at the path of another.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use hugetext_leaf::FileId;
use hugetext_leaf::replica::Node;
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

use super::state::FileState;
use crate::processes::{ChildError, in_child};

/// How a process gets its own mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Namespace {
    /// CLONE_NEWNS with CAP_SYS_ADMIN. Nothing else changes for the process.
    Mount,
    /// CLONE_NEWUSER and CLONE_NEWNS. The caller's user and group keep their numbers. Every other
    /// owner appears as nobody, set-id programs do not change the user, and no file can be given
    /// to another group.
    User,
}

/// The reason why this process gets no mount namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// It has no CAP_SYS_ADMIN. In a user namespace it would have one user and no capabilities.
    #[error(
        "this process is root or has capabilities, but not CAP_SYS_ADMIN, and would lose them in a \
         user namespace"
    )]
    Identity,
    /// The child process that tried could not report its result.
    #[error(transparent)]
    Rehearsal(#[from] ChildError),
    /// The kernel or a sandbox refuses.
    #[error("{0}")]
    Refused(String),
}

/// The facts that decide which namespace a process may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    /// Whether it has CAP_SYS_ADMIN in its present user namespace.
    administers: bool,
    /// Whether it has one user other than root, one group apart from supplementary groups, and no
    /// capability. Such a process has the same identity in a user namespace of its own.
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
    /// The namespace in which this process keeps its identity and its rights. A child process
    /// tries to enter it, since the refusal of a sandbox can come after half of the steps. The
    /// caller must have only one thread.
    pub fn possible() -> Result<Namespace, NamespaceError> {
        let kind = Namespace::permitted()?;
        let entered = in_child(|| kind.enter().map_err(|error| error.to_string()))?;
        entered.map(|()| kind).map_err(NamespaceError::Refused)
    }

    /// As [`Namespace::possible`], but decided by the caller's identity alone.
    pub fn permitted() -> Result<Namespace, NamespaceError> {
        let caller = Caller::this();
        caller
            .map_err(|error| NamespaceError::Refused(error.to_string()))?
            .namespace()
    }

    /// Moves this thread into its own mount namespace; a user namespace takes a process of one thread. Mounts
    /// that are made outside later still appear in it. Mounts that are made in it appear nowhere
    /// else.
    ///
    /// After an error, the process may be in a namespace in which its user is nobody. It must then
    /// not continue to act for its caller. So try in a child first, as [`Namespace::possible`]
    /// does.
    pub fn enter(self) -> io::Result<()> {
        match self {
            Namespace::Mount => {
                unshare(UnshareFlags::NEWNS)?;
                keep_mounts_in()?;
            }
            // The kernel ensures that mounts made here do not appear outside
            // (mount_namespaces(7)).
            Namespace::User => {
                let (user, group) = (geteuid().as_raw(), getegid().as_raw());
                unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
                fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
                // A group map requires that setgroups() is denied (user_namespaces(7)).
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
            }
        }
        Ok(())
    }
}

/// Ensures that mounts made in the new namespace of this thread appear nowhere else. The change
/// starts at the mount of its root directory. In a chroot, the root directory may not be a mount.
/// In that case setns(2) moves this thread to the root of the namespace. Afterwards it
/// enters its own root and working directory again.
fn keep_mounts_in() -> io::Result<()> {
    let receive = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match mount_change("/", receive) {
        Err(Errno::INVAL) => {}
        changed => return Ok(changed?),
    }
    let directory = |path| open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let (root, working) = (directory("/")?, directory(".")?);
    let own = File::open("/proc/thread-self/ns/mnt")?;
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let changed = mount_change("/", receive);
    fchdir(&root)?;
    chroot(".")?;
    fchdir(&working)?;
    Ok(changed?)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the file descriptor table stays shared, which is the only condition of the contract.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// A file opened by path only, to be checked and then mounted. The mounted file is the checked
/// file, even if the path leads to another file meanwhile.
#[derive(Debug)]
pub struct Mountable(File);

impl Mountable {
    /// Opens `path` without reading it (O_PATH). `path` must not be a symbolic link. To be
    /// mounted, the file must be opened inside the namespace.
    pub fn open(path: &Path) -> io::Result<Mountable> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Mountable(open(path, flags, Mode::empty())?.into()))
    }

    /// Whether it is this file.
    pub fn is(&self, id: FileId) -> bool {
        let metadata = self.0.metadata();
        metadata.is_ok_and(|metadata| FileId::of(&metadata) == id)
    }

    /// Whether it is the file that was looked at, with the same times of its content and its
    /// inode.
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

/// Removes the mount that [`Mountable::mount_over`] made at `path`. Processes that still use it
/// keep it.
pub fn uncover(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH)?)
}

fn make_read_only(tree: impl AsFd) -> io::Result<()> {
    set_read_only(tree, true)
}

/// Sets or clears MOUNT_ATTR_RDONLY. Unlike a remount, this does not change the other attributes,
/// which may be locked.
pub(super) fn set_read_only(tree: impl AsFd, read_only: bool) -> io::Result<()> {
    let (set, clear) = if read_only {
        (libc::MOUNT_ATTR_RDONLY, 0)
    } else {
        (0, libc::MOUNT_ATTR_RDONLY)
    };
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: clear,
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

/// Mounts a tmpfs of at most `size` bytes, whose files consist of huge pages (huge=always), all of them on
/// `node` if one is given (mpol=bind).
pub fn mount_huge_tmpfs(directory: &Path, size: u64, node: Option<Node>) -> io::Result<()> {
    let bound = node.map_or_else(String::new, |node| format!(",mpol=bind:{}", node.0));
    let options = format!("huge=always,mode=0700,size={size}{bound}");
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

/// Makes the filesystem that this process has mounted on `directory` read-only.
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
        assert!(file.is(state.id()));
    }
}
