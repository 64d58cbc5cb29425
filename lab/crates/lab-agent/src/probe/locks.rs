//! Counts with kprobes the i_mmap locks that a program's start and end take for writing.
//!
//! i_mmap_lock_write() is inline. It shows as down_write() on a semaphore at a fixed distance from
//! the tree that the task's next tree function receives. The trace itself tells that distance.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hugetext_lab_agent::{Locks, PROGRAMS};

use super::process::Running;
use hugetext_host::Pid;

const TRACING: &str = "/sys/kernel/tracing";
const LOCK: &str = "down_write";
/// Functions that change an i_mmap tree, with the position of the tree among the arguments: up to
/// Linux 7.2, and since 7.3.
const TREE: [(&str, u32); 4] = [
    ("vma_interval_tree_insert", 2),
    ("vma_interval_tree_remove", 2),
    ("mapping_rmap_tree_insert", 2),
    ("mapping_rmap_tree_remove", 2),
];

pub(super) fn probe() -> io::Result<Vec<Locks>> {
    let tracing = Tracing::start()?;
    let layouts = [
        ("static", "exec"),
        ("pie", "pie"),
        ("pie and one library, glibc", "so-glibc"),
        ("pie and one library, musl", "so-musl"),
        ("pie and a real library with all it needs", "gccjit"),
    ];
    layouts
        .into_iter()
        .map(|(layout, program)| {
            tracing.clear()?;
            let programs = Path::new(PROGRAMS);
            let running = Running::start(&programs.join(program), programs)?;
            let (pid, mappings) = (running.pid(), running.mappings()?.len() as u64);
            let start = tracing.events(pid)?;
            drop(running);
            let all = tracing.events(pid)?;
            let whole = locks(&all)?;
            let start = locks(&start)?;
            Ok(Locks {
                layout: layout.to_owned(),
                mappings,
                start,
                exit: whole - start,
            })
        })
        .collect()
}

/// The kprobes, removed when this value is dropped.
struct Tracing {
    directory: PathBuf,
}

impl Tracing {
    fn start() -> io::Result<Tracing> {
        let tracing = Tracing {
            directory: PathBuf::from(TRACING),
        };
        let symbols = fs::read_to_string("/proc/kallsyms")?;
        let known = |name: &str| {
            let end = format!(" {name}");
            symbols.lines().any(|line| line.ends_with(&end))
        };
        tracing.write("kprobe_events", "")?;
        let mut probes = format!("p:lab/lock {LOCK} at=$arg1\n");
        let trees: Vec<_> = TREE.iter().filter(|(name, _)| known(name)).collect();
        if trees.is_empty() {
            return Err(io::Error::other(
                "the kernel has none of the known i_mmap tree functions",
            ));
        }
        for (number, (name, argument)) in trees.into_iter().enumerate() {
            probes.push_str(&format!("p:lab/tree{number} {name} at=$arg{argument}\n"));
        }
        tracing.write("kprobe_events", &probes)?;
        tracing.write("buffer_size_kb", "4096")?;
        tracing.write("set_event_pid", &std::process::id().to_string())?;
        tracing.write("options/event-fork", "1")?;
        tracing.write("events/lab/enable", "1")?;
        Ok(tracing)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, text)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    fn clear(&self) -> io::Result<()> {
        self.write("trace", "")
    }

    /// The events of task `pid` so far: whether each was a lock, and its address.
    fn events(&self, pid: Pid) -> io::Result<Vec<(bool, u64)>> {
        let trace = fs::read_to_string(self.directory.join("trace"))?;
        Ok(trace.lines().filter_map(|line| event(line, pid)).collect())
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.write("events/lab/enable", "0");
        let _ = self.write("kprobe_events", "");
    }
}

/// A line such as `  so-glibc-77  [001] d..1.  3.5: lock: (down_write+0x0/0x60) at=0xffff…`.
fn event(line: &str, pid: Pid) -> Option<(bool, u64)> {
    let (task, rest) = line.split_once(" [")?;
    let (_, task) = task.trim_end().rsplit_once('-')?;
    let address = rest.rsplit_once("at=0x")?.1;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    (task == pid.to_string()).then(|| (rest.contains(": lock: "), address))
}

/// How many of the events took the lock of a tree that was then changed.
fn locks(events: &[(bool, u64)]) -> io::Result<u64> {
    let mut distances = BTreeMap::<u64, u64>::new();
    for pair in events.windows(2) {
        if let [(true, lock), (false, tree)] = pair {
            *distances.entry(tree.wrapping_sub(*lock)).or_default() += 1;
        }
    }
    let usual = distances.into_iter().max_by_key(|(_, times)| *times);
    let (distance, _) = usual.ok_or_else(|| io::Error::other("no lock was seen before a tree"))?;
    let trees: BTreeSet<u64> = events
        .iter()
        .filter(|(lock, _)| !lock)
        .map(|(_, at)| *at)
        .collect();
    let of_tree = |at: u64| trees.contains(&at.wrapping_add(distance));
    Ok(events
        .iter()
        .filter(|(lock, at)| *lock && of_tree(*at))
        .count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_of_changed_trees_count() {
        let lines = [
            "  so-glibc-77  [001] d..1.  3.5: lock: (down_write+0x0/0x60) at=0xff00",
            "  so-glibc-77  [001] d..1.  3.5: tree0: (vma_interval_tree_insert+0x0/0x90) at=0xff28",
            "  so-glibc-77  [001] d..1.  3.6: lock: (down_write+0x0/0x60) at=0xaa00",
            "  so-glibc-77  [001] d..1.  3.6: lock: (down_write+0x0/0x60) at=0xff00",
            "  so-glibc-78  [001] d..1.  3.6: lock: (down_write+0x0/0x60) at=0xff00",
        ];
        let pid = Pid::from_raw(77).unwrap();
        let events: Vec<_> = lines.iter().filter_map(|line| event(line, pid)).collect();
        assert_eq!(events.len(), 4);
        assert_eq!(locks(&events).unwrap(), 2);
        assert!(locks(&[]).is_err());
    }
}
