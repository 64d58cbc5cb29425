//! The control groups of a process, and the memory limit that those of this process set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use procfs::{FromRead, ProcessCGroup, ProcessCGroups};

use crate::files::io_error;
use crate::processes::Pid;

/// The control groups of a process: one for each hierarchy. That of version 2 has no controllers. Bytes of
/// a path that are not UTF-8 are replaced.
pub fn cgroups(pid: Pid) -> io::Result<Vec<ProcessCGroup>> {
    let text = fs::read(format!("/proc/{pid}/cgroup"))?;
    parse(&String::from_utf8_lossy(&text))
}

fn parse(text: &str) -> io::Result<Vec<ProcessCGroup>> {
    let groups = ProcessCGroups::from_read(text.as_bytes()).map_err(io_error)?;
    Ok(groups.0)
}

/// The group that counts the memory of a process: that of version 1 if it has the controller, else that of
/// version 2.
pub fn memory_group(groups: Vec<ProcessCGroup>) -> Option<ProcessCGroup> {
    let counts_memory =
        |group: &ProcessCGroup| group.controllers.iter().any(|name| name == "memory");
    let (counting, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(counts_memory);
    let unified = others.into_iter().find(|group| group.hierarchy == 0);
    counting.into_iter().next().or(unified)
}

/// The id in the name of a container's control group: 64 hexadecimal digits, alone or as in
/// `cri-containerd-ID.scope`, `docker-ID.scope` and `libpod-ID.scope`.
pub fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit(['-', ':']).next()?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

/// Bytes of memory that the control groups of this process allow, page cache included: the lowest
/// limit of its group and the visible groups above it. `None` if no group sets a limit.
pub fn memory_limit() -> io::Result<Option<u64>> {
    limit_of(&cgroups(Pid::own())?)
}

/// The same for the processes of a group, as [`memory_group`] gives it.
pub fn memory_limit_of(group: ProcessCGroup) -> io::Result<Option<u64>> {
    limit_of(&[group])
}

fn limit_of(groups: &[ProcessCGroup]) -> io::Result<Option<u64>> {
    let process = Process::myself().map_err(io_error)?;
    let mounts = process.mountinfo().map_err(io_error)?;
    let mut limits = Vec::new();
    for mount in &mounts {
        let Some((version, directory)) = group_at(mount, groups, "memory") else {
            continue;
        };
        let file = match version {
            Version::Two => MEMORY_MAX,
            Version::One => MEMORY_LIMIT,
        };
        let above = directory.ancestors();
        let inside = above.take_while(|above| above.starts_with(&mount.mount_point));
        // The root group has no such file, and "max" is not a number.
        let files = inside.map(|above| fs::read_to_string(above.join(file)));
        limits.extend(files.filter_map(|text| text.ok()?.trim().parse::<u64>().ok()));
    }
    Ok(limits.into_iter().min().filter(|limit| *limit < UNLIMITED))
}

/// Whether a control group of the process is frozen, so that none of its threads runs before somebody thaws
/// the group. A hierarchy that is mounted nowhere cannot be asked.
pub fn is_frozen(pid: Pid) -> bool {
    let groups = cgroups(pid).unwrap_or_default();
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    mounts.into_iter().flatten().any(|mount| {
        let Some((version, directory)) = group_at(&mount, &groups, "freezer") else {
            return false;
        };
        // Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/freezer-subsystem.rst
        let (file, frozen) = match version {
            Version::Two => ("cgroup.events", "frozen 1"),
            Version::One => ("freezer.state", "FROZEN"),
        };
        let state = fs::read_to_string(directory.join(file));
        state.is_ok_and(|text| text.lines().any(|line| line == frozen))
    })
}

/// The limit file of a group of version 2 (Documentation/admin-guide/cgroup-v2.rst).
const MEMORY_MAX: &str = "memory.max";
/// The limit file of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst).
const MEMORY_LIMIT: &str = "memory.limit_in_bytes";
/// Version 1 writes "no limit" as the largest number of whole pages in a 64-bit count of bytes.
const UNLIMITED: u64 = 1 << 60;

/// The version of control groups that a mount shows.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

/// The directory at which a mount shows one of these groups: that of version 2, or that of version 1 with the
/// controller.
fn group_at(
    mount: &MountInfo,
    groups: &[ProcessCGroup],
    controller: &str,
) -> Option<(Version, PathBuf)> {
    let version = match mount.fs_type.as_str() {
        "cgroup2" => Version::Two,
        "cgroup" if mount.super_options.contains_key(controller) => Version::One,
        _ => return None,
    };
    let group = groups.iter().find(|group| match version {
        Version::Two => group.hierarchy == 0,
        Version::One => group.controllers.iter().any(|name| name == controller),
    })?;
    Some((version, directory(mount, &group.pathname)?))
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
    fn the_group_that_counts_memory_is_found() {
        let of = |text| Some(memory_group(parse(text).ok()?)?.pathname);
        assert_eq!(
            of("0::/a/session-2.scope\n").as_deref(),
            Some("/a/session-2.scope")
        );
        let hybrid = "9:memory:/docker/5f\n1:name=systemd:/x\n0::/\n";
        assert_eq!(of(hybrid).as_deref(), Some("/docker/5f"));
        assert_eq!(of("broken"), None);
        assert!(cgroups(Pid::own()).is_ok());
    }

    #[test]
    fn there_is_a_limit_or_none() {
        assert!(memory_limit().unwrap().is_none_or(|limit| limit > 1 << 20));
    }
}
