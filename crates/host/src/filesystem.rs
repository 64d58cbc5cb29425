//! Which filesystem a file lies on.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hugetext_leaf::Filesystem;
use procfs::process::{MountInfo, Process};
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::Serialize;

/// A mount, as far as text is concerned.
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

/// Opens a file for reading; a FIFO without waiting for its writer.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a regular file for reading; anything else is an error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "is a directory",
        ));
    }
    if !kind.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// Bytes an unprivileged user may still write to the filesystem of `file`.
pub fn free_bytes(file: &File) -> io::Result<u64> {
    let filesystem = rustix::fs::fstatvfs(file)?;
    Ok(filesystem.f_bavail.saturating_mul(filesystem.f_frsize))
}

/// The mounts of this process's namespace, read once.
#[derive(Debug)]
pub struct Mounts(HashMap<u64, MountedOn>);

impl Mounts {
    /// Reads /proc/self/mountinfo.
    pub fn read() -> io::Result<Mounts> {
        let mounts = Process::myself()
            .and_then(|process| process.mountinfo())
            .map_err(io_error)?;
        let by_id = mounts.into_iter().filter_map(|mount| {
            let id = u64::try_from(mount.mnt_id).ok()?;
            Some((id, describe(mount)))
        });
        Ok(Mounts(by_id.collect()))
    }

    /// The mount `file` was opened through, by its mount id (statx STATX_MNT_ID, Linux 5.8).
    pub fn of(&self, file: &File) -> io::Result<&MountedOn> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        self.0.get(&stat.stx_mnt_id).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "its mount is not in /proc/self/mountinfo",
            )
        })
    }
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
        let mounts = Mounts::read().unwrap();
        let mount = mounts.of(&file).unwrap();
        assert_eq!(mount.name, "proc");
        assert_eq!(mount.filesystem, Filesystem::Other);
    }
}
