//! Memory: how much there is, and who stalls for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hugetext_host::PressureTrigger;
use hugetext_leaf::hold::{MemoryEvents, Pressure};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The kernel's reports of the whole machine.
const MACHINE: &str = "/proc/pressure/memory";
/// The most control groups that are watched.
const MOST_GROUPS: usize = 64;

/// Bytes of all memory, and of what programs can still take (/proc/meminfo).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// MemTotal.
    pub total: u64,
    /// MemAvailable.
    pub available: u64,
}

impl Memory {
    /// Now.
    pub(crate) fn read() -> io::Result<Memory> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let field = |name| field(&text, name).ok_or(io::ErrorKind::InvalidData);
        Ok(Memory {
            total: field("MemTotal:")?,
            available: field("MemAvailable:")?,
        })
    }
}

/// A field of /proc/meminfo or /proc/PID/status, in bytes.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// What the kernel has counted by now. What it does not count, or cannot be read, is missing.
pub(crate) fn memory_events() -> MemoryEvents {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let pressure = fs::read_to_string(MACHINE).unwrap_or_default();
    MemoryEvents {
        some_waited: waited(&pressure, "some "),
        all_waited: waited(&pressure, "full "),
        ..counted(&text)
    }
}

/// How long tasks have waited by a line of /proc/pressure/memory.
fn waited(pressure: &str, kind: &str) -> Option<Duration> {
    let line = pressure.lines().find(|line| line.starts_with(kind))?;
    let (_, total) = line.rsplit_once("total=")?;
    total.parse().ok().map(Duration::from_micros)
}

fn counted(vmstat: &str) -> MemoryEvents {
    let pairs = vmstat.lines().filter_map(|line| line.split_once(' '));
    let mut events = MemoryEvents::default();
    for (name, count) in pairs {
        let (field, count) = match name {
            "workingset_restore_file" | "workingset_restore_anon" => (&mut events.restored, count),
            "pswpin" => (&mut events.swapped_in, count),
            _ => continue,
        };
        if let Ok(count) = count.parse::<u64>() {
            *field = Some(field.unwrap_or(0).saturating_add(count));
        }
    }
    events
}

/// What the kernel has reported of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StallReport {
    /// The worst of several reports.
    pub pressure: Pressure,
    /// When the first of them came.
    pub at: Instant,
}

impl StallReport {
    fn and(before: Option<StallReport>, pressure: Pressure) -> StallReport {
        match before {
            None => StallReport {
                pressure,
                at: Instant::now(),
            },
            Some(before) => StallReport {
                pressure: before.pressure.max(pressure),
                ..before
            },
        }
    }
}

/// What the kernel reports of the machine, heard by a thread of its own.
#[derive(Debug)]
pub(crate) struct Stalled {
    /// All since the last call.
    reported: Arc<Mutex<Option<StallReport>>>,
    /// Why not everything is reported.
    pub problem: Option<String>,
}

impl Stalled {
    /// Hears what this kernel reports, and calls `wake` for each report.
    pub(crate) fn hear(wake: Arc<dyn Fn() + Send + Sync>) -> Stalled {
        let reported = Arc::new(Mutex::new(None));
        let mut triggers = Vec::new();
        let mut problem = None;
        for pressure in [Pressure::Some, Pressure::Full] {
            match PressureTrigger::new(Path::new(MACHINE), pressure) {
                Ok(trigger) => triggers.push(trigger),
                Err(error) => problem = Some(format!("{MACHINE}: {error}")),
            }
        }
        let heard = Arc::clone(&reported);
        let hear = move || {
            while let Ok(pressures) = PressureTrigger::wait(&triggers, None) {
                if let Some(worst) = pressures.into_iter().max() {
                    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    *heard = Some(StallReport::and(*heard, worst));
                }
                wake();
            }
        };
        if problem.is_none()
            && let Err(error) = thread::Builder::new().name("stalls".to_owned()).spawn(hear)
        {
            problem = Some(format!("{MACHINE}: {error}"));
        }
        Stalled { reported, problem }
    }

    /// What was reported since the last call.
    pub(crate) fn take(&self) -> Option<StallReport> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.take()
    }
}

/// Control groups whose processes run what is held. A page is charged to the group that read it first,
/// so what is locked may stand in the way of a group at its limit.
///
/// Its descriptor is ready when the kernel has counted something of one of them (memory.events).
#[derive(Debug)]
pub(crate) struct GroupLimits {
    epoll: OwnedFd,
    watched: BTreeMap<u64, Limited>,
}

/// A control group that is watched.
#[derive(Debug)]
struct Limited {
    /// Its memory.events. Open, because the kernel reports changes to a reader of it.
    events: File,
    hits: u64,
}

impl AsFd for GroupLimits {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl GroupLimits {
    /// Watches nothing yet.
    pub(crate) fn new() -> io::Result<GroupLimits> {
        Ok(GroupLimits {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            watched: BTreeMap::new(),
        })
    }

    /// Whether the kernel has counted something that [`GroupLimits::pressed`] has not read.
    pub(crate) fn has_news(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.epoll, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Those of `groups` (number and path) that reached a limit since the last call. From now on these
    /// are watched.
    pub(crate) fn pressed<'g>(
        &mut self,
        groups: impl Iterator<Item = (u64, &'g str)>,
    ) -> BTreeSet<u64> {
        let mut pressed = BTreeSet::new();
        let mut before = std::mem::take(&mut self.watched);
        for (number, path) in groups.take(MOST_GROUPS) {
            let known = before.remove(&number);
            let is_new = known.is_none();
            let Some(mut group) = known.or_else(|| self.open(path)) else {
                continue;
            };
            // A group that was removed cannot be read any more.
            let Ok(hits) = limit_hits_of(&group.events) else {
                continue;
            };
            if !is_new && hits > group.hits {
                pressed.insert(number);
            }
            group.hits = hits;
            self.watched.insert(number, group);
        }
        pressed
    }

    fn open(&self, path: &str) -> Option<Limited> {
        let events = File::open(directory(path)?.join("memory.events")).ok()?;
        // Where the kernel reports nothing, the group is still looked at now and then.
        let _ = epoll::add(&self.epoll, &events, EventData::new_u64(0), EventFlags::PRI);
        Some(Limited { events, hits: 0 })
    }
}

/// What an open memory.events counts now.
fn limit_hits_of(events: &File) -> io::Result<u64> {
    let mut text = [0; 512];
    let len = events.read_at(&mut text, 0)?;
    let text = text.get(..len).unwrap_or_default();
    Ok(limit_hits(&String::from_utf8_lossy(text)))
}

/// Where a control group of version 2 is; `None` for the root, which has no limit.
fn directory(path: &str) -> Option<PathBuf> {
    let inside = path.strip_prefix('/').filter(|inside| !inside.is_empty())?;
    Some(Path::new("/sys/fs/cgroup").join(inside))
}

/// How often memory.events counts that a group was held back by its limits.
fn limit_hits(events: &str) -> u64 {
    let counts = events.lines().filter_map(|line| line.split_once(' '));
    let limits = counts.filter(|(name, _)| ["high", "max", "oom"].contains(name));
    limits
        .filter_map(|(_, count)| count.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        let memory = Memory::read().unwrap();
        assert!(memory.available > 0 && memory.available <= memory.total);
    }

    #[test]
    fn several_reports_are_one_since_the_first() {
        let first = StallReport::and(None, Pressure::Some);
        let both = StallReport::and(Some(first), Pressure::Full);
        assert_eq!((both.pressure, both.at), (Pressure::Full, first.at));
        let all = StallReport::and(Some(both), Pressure::Some);
        assert_eq!(all, both);
    }

    #[test]
    fn events_are_summed_and_may_be_missing() {
        let text = "nr_free_pages 9\nworkingset_restore_anon 1\nworkingset_restore_file 2\n";
        let expected = MemoryEvents {
            restored: Some(3),
            ..MemoryEvents::default()
        };
        assert_eq!(counted(text), expected);
        let text = "some avg10=1.85 avg60=0.91 avg300=0.40 total=16996005\n\
                    full avg10=0.93 avg60=0.45 avg300=0.16 total=5477007\n";
        let micros = |micros| Some(Duration::from_micros(micros));
        assert_eq!(waited(text, "some "), micros(16_996_005));
        assert_eq!(waited(text, "full "), micros(5_477_007));
        assert_eq!(waited("", "full "), None);
    }

    #[test]
    fn limits_of_a_group_are_read() {
        assert_eq!(limit_hits("low 9\nhigh 2\nmax 3\noom 0\noom_kill 0\n"), 5);
        assert_eq!(directory("/"), None);
        let mut limits = GroupLimits::new().unwrap();
        assert!(
            limits
                .pressed([(1, "/no/such/group")].into_iter())
                .is_empty()
        );
        assert!(!limits.has_news());
    }
}
