//! Which filesystem a file lies on.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use hugetext_leaf::Filesystem;
use procfs::process::{MountInfo, Process};
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::Serialize;

/// The mount a file was opened through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountedOn {
    /// What the rules know it as.
    pub filesystem: Filesystem,
    /// Its name in /proc/self/mountinfo.
    pub name: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Whether the mount forbids execution.
    pub noexec: bool,
}

/// The mount `file` was opened through, by its mount id (statx STATX_MNT_ID, Linux 5.8).
pub fn mounted_on(file: &File) -> io::Result<MountedOn> {
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let mounts = Process::myself()
        .and_then(|process| process.mountinfo())
        .map_err(io_error)?;
    mounts
        .into_iter()
        .find(|mount| u64::try_from(mount.mnt_id) == Ok(stat.stx_mnt_id))
        .map(describe)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its mount is not in mountinfo"))
}

fn describe(mount: MountInfo) -> MountedOn {
    let huge = mount
        .super_options
        .get("huge")
        .and_then(|value| value.as_deref());
    let filesystem = match Filesystem::from_name(&mount.fs_type) {
        Filesystem::Tmpfs if huge == Some("always") => Filesystem::HugeTmpfs,
        other => other,
    };
    MountedOn {
        filesystem,
        name: mount.fs_type,
        noexec: mount.mount_options.contains_key("noexec"),
        mount_point: mount.mount_point,
    }
}

/// procfs errors as the I/O errors they mostly are.
pub(crate) fn io_error(error: procfs::ProcError) -> io::Error {
    match error {
        procfs::ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        procfs::ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        procfs::ProcError::Io(error, _) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_filesystem_of_proc() {
        let file = File::open("/proc/self/status").unwrap();
        let mount = mounted_on(&file).unwrap();
        assert_eq!(mount.name, "proc");
        assert_eq!(mount.filesystem, Filesystem::Other);
    }
}
