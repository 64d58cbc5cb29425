//! The control groups of a process, and the memory limit that those of this process set.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::process::MountInfo;
use procfs::{FromRead, ProcessCGroup, ProcessCGroups};

use crate::listed::io_error;
use crate::listed::mount_infos;
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

/// The time of processors that the control groups of this process allow, in processors: 0.5 is half of one. The lowest quota
/// of its group and the visible groups above it; `None` if no group sets one.
pub fn processor_quota() -> io::Result<Option<f64>> {
    let (groups, mounts) = (cgroups(Pid::own())?, mounts()?);
    let mut quotas = Vec::new();
    for mount in &mounts {
        let Some((version, directory)) = group_at(mount, &groups, "cpu") else {
            continue;
        };
        let above = directory.ancestors();
        let inside = above.take_while(|above| above.starts_with(&mount.mount_point));
        quotas.extend(inside.filter_map(|above| version.quota(above)));
    }
    Ok(quotas.into_iter().min_by(f64::total_cmp))
}

/// Whether one of these control groups, or one above it, has a limit of memory. The groups are named as
/// [`memory_group`] names them. A hierarchy that is mounted nowhere cannot be asked.
pub fn is_memory_limited<'g>(groups: impl Iterator<Item = &'g str>) -> io::Result<bool> {
    let mounts = mounts()?;
    let mut limits = groups.flat_map(|pathname| limits_of(&mounts, &in_each_version(pathname)));
    Ok(limits.any(|limit| limit < UNLIMITED))
}

/// Who the directories of control groups belong to.
#[derive(Debug)]
pub struct GroupOwners(Vec<MountInfo>);

impl GroupOwners {
    /// As this process sees them.
    pub fn this() -> GroupOwners {
        GroupOwners(mounts().unwrap_or_default())
    }

    /// The part of a group's path, as [`memory_group`] gives it, that only root could have named: the rest was
    /// delegated to a user. All of it if its directories cannot be seen.
    pub fn of_root<'g>(&self, pathname: &'g str) -> &'g str {
        let groups = in_each_version(pathname);
        let at = |mount: &MountInfo| {
            let (_, directory) = group_at(mount, &groups, "memory")?;
            directory
                .exists()
                .then(|| (mount.mount_point.clone(), directory))
        };
        let Some((top, directory)) = self.0.iter().find_map(at) else {
            return pathname;
        };
        let below = directory.ancestors().take_while(|above| *above != top);
        let owner = |group: &Path| fs::metadata(group).map(|group| group.uid()).ok();
        let is_delegated = |above: &Path| owner(above) != owner(&top);
        let foreign = below.enumerate().filter(|(_, above)| is_delegated(above));
        let Some((up, _)) = foreign.last() else {
            return pathname;
        };
        let mut own = pathname;
        for _ in 0..=up {
            own = own.rsplit_once('/').map_or("", |(above, _)| above);
        }
        own
    }
}

/// A control group of this path in each hierarchy that may count memory: the path does not tell which does.
fn in_each_version(pathname: &str) -> [ProcessCGroup; 2] {
    let of = |hierarchy, controllers| ProcessCGroup {
        hierarchy,
        controllers,
        pathname: pathname.to_owned(),
    };
    [of(0, Vec::new()), of(1, vec!["memory".to_owned()])]
}

fn limit_of(groups: &[ProcessCGroup]) -> io::Result<Option<u64>> {
    let lowest = limits_of(&mounts()?, groups).into_iter().min();
    Ok(lowest.filter(|limit| *limit < UNLIMITED))
}

fn mounts() -> io::Result<Vec<MountInfo>> {
    mount_infos("/proc/self/mountinfo")
}

/// The limits that these groups and those above them set, in bytes.
fn limits_of(mounts: &[MountInfo], groups: &[ProcessCGroup]) -> Vec<u64> {
    let mut limits = Vec::new();
    for mount in mounts {
        let Some((version, directory)) = group_at(mount, groups, "memory") else {
            continue;
        };
        let above = directory.ancestors();
        let inside = above.take_while(|above| above.starts_with(&mount.mount_point));
        // The root group has no such files, and "max" is not a number.
        let files =
            inside.flat_map(|above| version.limit_files().iter().map(|file| above.join(file)));
        let files = files.map(fs::read_to_string);
        limits.extend(files.filter_map(|text| text.ok()?.trim().parse::<u64>().ok()));
    }
    limits
}

/// Whether a control group of the process is frozen, so that none of its threads runs before somebody thaws
/// the group. A hierarchy that is mounted nowhere cannot be asked.
pub fn is_frozen(pid: Pid) -> bool {
    let groups = cgroups(pid).unwrap_or_default();
    mounts().unwrap_or_default().iter().any(|mount| {
        let Some((version, directory)) = group_at(mount, &groups, "freezer") else {
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

/// The directory of the control group of version 2 that a process is in; `None` where no mount shows it.
pub(crate) fn unified_group(pid: Pid) -> Option<PathBuf> {
    let groups = cgroups(pid).ok()?;
    let mounts = mounts().ok()?;
    mounts
        .iter()
        .find_map(|mount| match group_at(mount, &groups, "freezer")? {
            (Version::Two, directory) => Some(directory),
            (Version::One, _) => None,
        })
}

/// Version 1 writes "no limit" as the largest number of whole pages in a 64-bit count of bytes.
const UNLIMITED: u64 = 1 << 60;

/// The version of control groups that a mount shows.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The files that hold a group's limits of memory (Documentation/admin-guide/cgroup-v2.rst and
    /// cgroup-v1/memory.rst). Beyond memory.high nobody is killed, but everybody waits for reclaim.
    fn limit_files(self) -> &'static [&'static str] {
        match self {
            Version::One => &["memory.limit_in_bytes"],
            Version::Two => &["memory.max", "memory.high"],
        }
    }
}

impl Version {
    /// The quota of a group, in processors (Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
    fn quota(self, group: &Path) -> Option<f64> {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        match self {
            Version::One => {
                let quota = read("cpu.cfs_quota_us")?;
                quota_of(quota.trim(), read("cpu.cfs_period_us")?.trim())
            }
            Version::Two => {
                let both = read("cpu.max")?;
                let (quota, period) = both.trim().split_once(' ')?;
                quota_of(quota, period)
            }
        }
    }
}

/// `max` and -1 are no quota.
fn quota_of(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
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
    use crate::listed::parse_mounts;

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
    fn quotas_are_parts_of_processors() {
        assert_eq!(quota_of("50000", "100000"), Some(0.5));
        for none in ["max", "-1", "0", ""] {
            assert_eq!(quota_of(none, "100000"), None);
        }
        assert_eq!(quota_of("50000", "0"), None);
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cpu.max"), "20000 10000\n").unwrap();
        assert_eq!(Version::Two.quota(group.path()), Some(2.0));
        assert_eq!(Version::One.quota(group.path()), None);
        assert!(processor_quota().unwrap().is_none_or(|quota| quota > 0.0));
    }

    #[test]
    fn what_was_delegated_is_told_from_what_root_named() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a.service/users/docker-1")).unwrap();
        let listed = format!("30 1 0:5 / {} rw - cgroup2 none rw\n", top.display());
        let owners = GroupOwners(parse_mounts(listed.as_bytes()).unwrap());
        let path = "/a.service/users/docker-1";
        assert_eq!(owners.of_root(path), path);
        assert_eq!(owners.of_root("/not/there"), "/not/there");
        let given = top.join("a.service/users");
        if std::os::unix::fs::chown(given, Some(4242), None).is_err() {
            return println!("skipped: only root can change the owner of a directory");
        }
        assert_eq!(owners.of_root(path), "/a.service");
        assert_eq!(owners.of_root("/a.service"), "/a.service");
    }

    #[test]
    fn there_is_a_limit_or_none() {
        assert!(memory_limit().unwrap().is_none_or(|limit| limit > 1 << 20));
        assert!(!is_memory_limited(["/no/such/group"].into_iter()).unwrap());
    }
}
