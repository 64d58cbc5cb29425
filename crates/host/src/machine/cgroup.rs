//! The memory limit that the control groups of this process set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};

use crate::files::io_error;

/// Bytes of memory that the control groups of this process allow, page cache included: the lowest
/// limit of its group and the visible groups above it. `None` if no group sets a limit.
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
        // The root group has no such file, and "max" is not a number.
        let files = inside.map(|above| fs::read_to_string(above.join(file)));
        limits.extend(files.filter_map(|text| text.ok()?.trim().parse::<u64>().ok()));
    }
    Ok(limits.into_iter().min().filter(|limit| *limit < UNLIMITED))
}

/// The limit file of a group of version 2 (Documentation/admin-guide/cgroup-v2.rst).
const MEMORY_MAX: &str = "memory.max";
/// The limit file of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst).
const MEMORY_LIMIT: &str = "memory.limit_in_bytes";
/// Version 1 writes "no limit" as the largest number of whole pages in a 64-bit count of bytes.
const UNLIMITED: u64 = 1 << 60;

/// The name of the memory limit file of the groups of this mount.
fn limit_file(mount: &MountInfo) -> Option<&'static str> {
    match mount.fs_type.as_str() {
        "cgroup2" => Some(MEMORY_MAX),
        "cgroup" if mount.super_options.contains_key("memory") => Some(MEMORY_LIMIT),
        _ => None,
    }
}

/// The path of a group below a mount, which may show only a part of the hierarchy.
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
