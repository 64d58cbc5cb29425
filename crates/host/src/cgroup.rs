//! What the control groups of this process leave it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};

use crate::filesystem::io_error;

/// Bytes of memory that the control groups of this process allow, page cache included: the least of
/// the limits of its group and those above it that can be seen from here. `None` if there is none.
pub fn memory_limit() -> io::Result<Option<u64>> {
    let process = Process::myself().map_err(io_error)?;
    let groups = process.cgroups().map_err(io_error)?;
    let mounts = process.mountinfo().map_err(io_error)?;
    let mut limits = Vec::new();
    for mount in &mounts {
        let Some(file) = limit_file(mount) else {
            continue;
        };
        let group = groups.0.iter().find(|group| match file {
            MEMORY_MAX => group.hierarchy == 0,
            _ => group.controllers.iter().any(|name| name == "memory"),
        });
        let Some(directory) = group.and_then(|group| directory(mount, &group.pathname)) else {
            continue;
        };
        let above = directory.ancestors();
        let inside = above.take_while(|above| above.starts_with(&mount.mount_point));
        // The root has no such file, and "max" is no number.
        let files = inside.map(|above| fs::read_to_string(above.join(file)));
        limits.extend(files.filter_map(|text| text.ok()?.trim().parse::<u64>().ok()));
    }
    Ok(limits.into_iter().min().filter(|limit| *limit < UNLIMITED))
}

/// The limit of a group of version 2 (Documentation/admin-guide/cgroup-v2.rst).
const MEMORY_MAX: &str = "memory.max";
/// That of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst).
const MEMORY_LIMIT: &str = "memory.limit_in_bytes";
/// Version 1 says so many pages as a 64-bit count of bytes can hold.
const UNLIMITED: u64 = 1 << 60;

/// In which file the groups of this mount have their limit of memory.
fn limit_file(mount: &MountInfo) -> Option<&'static str> {
    match mount.fs_type.as_str() {
        "cgroup2" => Some(MEMORY_MAX),
        "cgroup" if mount.super_options.contains_key("memory") => Some(MEMORY_LIMIT),
        _ => None,
    }
}

/// Where a group lies below a mount, which may show a part of the hierarchy only.
fn directory(mount: &MountInfo, group: &str) -> Option<PathBuf> {
    let inside = Path::new(group).strip_prefix(&mount.root).ok()?;
    Some(mount.mount_point.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_limit_or_none() {
        assert!(memory_limit().unwrap().is_none_or(|limit| limit > 1 << 20));
    }
}
