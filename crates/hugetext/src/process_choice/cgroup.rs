//! The processes of a cgroup or of a systemd unit.

use hugetext_host::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where cgroups are mounted (systemd, file-hierarchy(7)).
const MOUNT: &str = "/sys/fs/cgroup";

/// The directory of a cgroup: a path, or a path below the mount of all cgroups.
pub(super) fn directory(group: &Path) -> PathBuf {
    if group.starts_with(MOUNT) {
        return group.to_owned();
    }
    Path::new(MOUNT).join(group.strip_prefix("/").unwrap_or(group))
}

/// The cgroup of a systemd unit, which has its name. A name without a kind is that of a service.
pub(super) fn directory_of_unit(unit: &str) -> Option<PathBuf> {
    find_unit(Path::new(MOUNT), unit)
}

fn find_unit(mount: &Path, unit: &str) -> Option<PathBuf> {
    let kind = if unit.contains('.') { "" } else { ".service" };
    let name = format!("{unit}{kind}");
    let mut all = groups(mount.to_owned()).into_iter();
    all.find(|group| group.file_name().and_then(|last| last.to_str()) == Some(&name))
}

/// A cgroup and all below it, each before those below it.
fn groups(group: PathBuf) -> Vec<PathBuf> {
    let mut found = vec![group];
    let mut next = 0;
    while let Some(group) = found.get(next) {
        // A group may be removed at any time.
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
        found.extend(below);
        next += 1;
    }
    found
}

/// The processes of a cgroup and of all below it (cgroup.procs), ascending.
pub(super) fn processes(directory: &Path) -> io::Result<Vec<Pid>> {
    fs::metadata(directory.join("cgroup.procs"))?;
    let mut pids: Vec<Pid> = groups(directory.to_owned())
        .iter()
        // A threaded group lists no processes.
        .filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok())
        .flat_map(|text| {
            let pids = text.lines().filter_map(|line| line.parse().ok());
            pids.collect::<Vec<Pid>>()
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_the_processes_of_all_groups_below_it() {
        let mount = tempfile::tempdir().unwrap();
        let unit = mount.path().join("system.slice/web.service");
        fs::create_dir_all(unit.join("worker")).unwrap();
        fs::write(unit.join("cgroup.procs"), "30\n7\n").unwrap();
        fs::write(unit.join("worker/cgroup.procs"), "8\n").unwrap();
        assert_eq!(find_unit(mount.path(), "web"), Some(unit.clone()));
        assert_eq!(find_unit(mount.path(), "web.service"), Some(unit.clone()));
        assert_eq!(find_unit(mount.path(), "we"), None);
        let found = processes(&unit).unwrap();
        let found: Vec<i32> = found.into_iter().map(Pid::as_raw).collect();
        assert_eq!(found, [7, 8, 30]);
        assert!(processes(mount.path()).is_err());
    }
}
