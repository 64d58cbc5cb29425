//! The lines of docs/rmap.jsonl, which `kernel/rmap/lab/measure.sh` writes.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A kernel that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// Without the set.
    Without,
    /// With it, its option off.
    Off,
    /// With it, but every file keeps one tree and one lock.
    OneTree,
    /// With it.
    With,
}

/// One line: where it is from, and what was measured.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    pub(crate) part: String,
    pub(crate) side: Side,
    pub(crate) date: String,
    /// Processors of the guest; none for what ran outside.
    #[serde(default)]
    pub(crate) cpus: u32,
    /// What a file was to be split into.
    #[serde(default)]
    pub(crate) shards: u32,
    #[serde(default)]
    pub(crate) package: String,
    #[serde(default)]
    pub(crate) qemu: String,
    #[serde(default)]
    pub(crate) cpu: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What was done `count` times in `ns` nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Timed {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

/// Times in nanoseconds if not named otherwise.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum What {
    /// Processes were started, each worker's after each other.
    Storm(Timed),
    /// Processes were started that wait.
    Crowd {},
    /// A class of locks during the storm before it, readers and writers apart.
    Lock {
        contentions: u64,
        longest_wait_us: f64,
        wait_us: f64,
        acquisitions: u64,
        hold_us: f64,
    },
    #[serde(rename = "rmap walk")]
    RmapWalk(Timed),
    Truncate(Timed),
    #[serde(rename = "truncate half")]
    TruncateHalf(Timed),
    #[serde(rename = "hole punch")]
    HolePunch(Timed),
    /// The times of a trip to a lock, measured in user space.
    Service {
        tree_ns: f64,
        lock_transfer_ns: f64,
        tree_transfer_ns: f64,
    },
    /// What the kernel allocates for every file or process of a kind, in bytes.
    Object {
        cache: String,
        bytes: u64,
        per_slab: u64,
    },
    /// How many of the files that name what the set changes were compiled, with its option or not.
    Compiled {
        name: String,
        config: String,
        compiler: String,
        option: bool,
        files: u64,
    },
    /// Those that no configuration compiled.
    NotCompiled {
        files: Vec<String>,
    },
    /// Of the functions of a kernel, those that are not the same with the set, its option off.
    Off {
        functions: u64,
        differ: Vec<String>,
    },
    /// A file was collapsed while holes were punched into it, until both halted or the time was up.
    Race {
        punched: u64,
        tried: u64,
        collapsed: u64,
        halted: bool,
    },
    Stress {
        seconds: u64,
        steps: BTreeMap<String, u64>,
        audit: BTreeMap<String, u64>,
        end: BTreeMap<String, u64>,
        vmstat: BTreeMap<String, u64>,
    },
}

/// Storms alike, and their trips to the `i_mmap` locks.
#[derive(Default, Clone, Copy)]
pub(crate) struct Trips {
    pub(crate) storms: u64,
    starts: u64,
    pub(crate) ns: u64,
    pub(crate) taken: u64,
    pub(crate) contended: u64,
    pub(crate) waited_us: f64,
    pub(crate) longest_wait_us: f64,
    pub(crate) held_us: f64,
}

impl Trips {
    /// Of all storms of a part on `cpus` processors of one side.
    pub(crate) fn of(records: &[Record], part: &str, side: Side, cpus: u32) -> Option<Self> {
        let mut trips = Self::default();
        for record in records {
            if record.part != part || record.side != side || record.cpus != cpus {
                continue;
            }
            match record.what {
                What::Storm(Timed { count, ns }) => {
                    trips.storms += 1;
                    trips.starts += count;
                    trips.ns += ns;
                }
                What::Lock {
                    contentions,
                    longest_wait_us,
                    wait_us,
                    acquisitions,
                    hold_us,
                } => {
                    trips.taken += acquisitions;
                    trips.contended += contentions;
                    trips.waited_us += wait_us;
                    trips.longest_wait_us = trips.longest_wait_us.max(longest_wait_us);
                    trips.held_us += hold_us;
                }
                _ => {}
            }
        }
        (trips.starts > 0).then_some(trips)
    }

    pub(crate) fn per_start(self, amount: f64) -> f64 {
        amount / self.starts as f64
    }
}

/// Parses the record, one JSON document a line.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}
