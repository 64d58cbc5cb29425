//! The lines that `lab/kernel/rmap/measure.sh` records.

use std::collections::BTreeMap;
use std::iter::Sum;

use serde::Deserialize;

/// A kernel that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// Without any set of `kernel/`.
    Unpatched,
    /// With the set fold, and no other.
    Fold,
    /// With the set fork, and no other.
    Fork,
    /// With both.
    FoldFork,
    /// With the set rmap, and no other but fork.
    Alone,
    /// Without the set.
    Without,
    /// With it, its option off.
    Off,
    /// With it, but every file keeps one tree and one lock.
    OneTree,
    /// With it.
    With,
}

/// A benchmark of UnixBench or will-it-scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bench {
    Execl,
    Shell8,
    Mmap1,
    Mmap2,
}

/// One line: its origin, and the measurement.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    pub(crate) part: String,
    pub(crate) side: Side,
    pub(crate) date: String,
    /// Processors of the guest; `None` for a measurement outside a guest.
    #[serde(default)]
    pub(crate) cpus: u32,
    /// The number of shards of a file.
    #[serde(default)]
    pub(crate) shards: u32,
    /// Processes that wait, and map what is measured; 0 if that was not recorded.
    #[serde(default)]
    pub(crate) processes: u32,
    /// The number of copies of the files that processes use; 0 for the files themselves.
    #[serde(default)]
    pub(crate) replicas: u32,
    /// Real processors of the machine that emulated the guest; 0 if that was not recorded.
    #[serde(default)]
    pub(crate) host_cpus: u32,
    /// What ran instead of the lab's own storm.
    pub(crate) bench: Option<Bench>,
    #[serde(default)]
    pub(crate) package: String,
    #[serde(default)]
    pub(crate) qemu: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// An operation done `count` times in `ns` nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Timed {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

/// What ran for some time beside the walks over the mappings of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// Storm and walkers, while the crowd starts and its files are split.
    Crowd,
    /// Shells that start programs.
    Storm,
    /// Reclaim, compaction and migration.
    Pressure,
    /// All of them.
    Both,
}

/// What was done within `ns` nanoseconds.
#[derive(Debug, Deserialize)]
pub(crate) struct Pressure {
    pub(crate) load: Load,
    pub(crate) ns: u64,
    pub(crate) starts: u64,
    /// Steps of reclaim, compaction and migration that ended.
    pub(crate) reclaims: u64,
    pub(crate) compactions: u64,
    pub(crate) migrations: u64,
    /// Pages of files that were reclaimed.
    pub(crate) reclaimed: u64,
    /// Pages that moved, by compaction or migration, and those that did not although they should.
    pub(crate) migrated: u64,
    pub(crate) not_migrated: u64,
    /// Walks that gave up, because somebody held or wanted the lock.
    pub(crate) refused: u64,
    /// Walks that would have given up.
    pub(crate) try_lock: Times,
    /// All walks that took the lock, until they gave it back.
    pub(crate) walk: Times,
    /// The wait for the lock of those that do not give up.
    pub(crate) wait: Times,
    /// Splits of files.
    pub(crate) split: Times,
}

/// How long something took, each time.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) ns: u64,
    pub(crate) longest_ns: u64,
    /// At `i`, how many took less than 2^`i` ns, and not less than half of that.
    pub(crate) below: Vec<u64>,
}

/// Times are in nanoseconds unless the name tells otherwise.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum What {
    /// Processes were started, one after the other by each worker.
    Storm(Timed),
    /// Processes that wait were started.
    Crowd {},
    /// A class of locks during the preceding storm, readers and writers apart.
    Lock {
        class: String,
        contentions: u64,
        wait_us: f64,
        acquisitions: u64,
        hold_us: f64,
    },
    /// The acquisitions of a function to a class of locks that waited during the preceding storm.
    Site {
        function: String,
        contentions: u64,
    },
    /// Acquisitions during the preceding storm by one function, on behalf of another.
    Caller {
        functions: String,
        acquisitions: u64,
    },
    #[serde(rename = "rmap walk")]
    RmapWalk(Timed),
    Truncate(Timed),
    #[serde(rename = "truncate half")]
    TruncateHalf(Timed),
    #[serde(rename = "hole punch")]
    HolePunch(Timed),
    /// How often a PMD was set to map a file during the preceding storm.
    Leaves {
        mapped: u64,
    },
    /// Bytes that the kernel allocates for every file or process of a kind.
    Object {
        cache: String,
        bytes: u64,
        per_slab: u64,
    },
    /// How many of the files that the sets change, or that name what they change, were compiled, with the
    /// option of rmap or without.
    Compiled {
        name: String,
        config: String,
        compiler: String,
        option: bool,
        files: u64,
    },
    /// The files that no configuration compiled.
    NotCompiled {
        files: Vec<String>,
    },
    /// Among the functions of a kernel, those that differ with the set and its option off.
    Off {
        functions: u64,
        differ: Vec<String>,
    },
    Pressure(Pressure),
    Stress {
        seconds: u64,
        /// Of the kernel itself, as KCSAN names them: functions that no set names.
        #[serde(default)]
        races: Vec<String>,
        steps: BTreeMap<String, u64>,
        audit: BTreeMap<String, u64>,
        end: BTreeMap<String, u64>,
        vmstat: BTreeMap<String, u64>,
    },
}

/// A storm, or several equal ones, with the acquisitions to the `i_mmap` locks.
#[derive(Default, Clone, Copy)]
pub(crate) struct Acquisitions {
    pub(crate) storms: u64,
    /// Processors of the guest.
    pub(crate) cpus: u32,
    /// Copies of the files.
    pub(crate) replicas: u32,
    /// `None` for a storm of the lab.
    pub(crate) bench: Option<Bench>,
    /// Or operations of the benchmark.
    starts: u64,
    pub(crate) ns: u64,
    pub(crate) taken: u64,
    /// The acquisitions to a lock of a shard: none unless a file was split.
    pub(crate) taken_in_shards: u64,
    pub(crate) contended: u64,
    pub(crate) waited_us: f64,
    pub(crate) held_us: f64,
    /// How often a PMD was set to map a file.
    pub(crate) leaves: u64,
}

impl Acquisitions {
    /// The storms of one side in a part of the record. The lines of their locks follow each.
    pub(crate) fn of(records: &[Record], part: &str, side: Side) -> Vec<Self> {
        let mut storms: Vec<Self> = Vec::new();
        for record in records {
            if record.part != part || record.side != side {
                continue;
            }
            match (&record.what, storms.last_mut()) {
                (What::Storm(Timed { count, ns }), _) => storms.push(Self {
                    storms: 1,
                    cpus: record.cpus,
                    replicas: record.replicas,
                    bench: record.bench,
                    starts: *count,
                    ns: *ns,
                    ..Self::default()
                }),
                (
                    What::Lock {
                        class,
                        contentions,
                        wait_us,
                        acquisitions,
                        hold_us,
                    },
                    Some(storm),
                ) => {
                    storm.taken += acquisitions;
                    if class.starts_with("i_mmap_shard") {
                        storm.taken_in_shards += acquisitions;
                    }
                    storm.contended += contentions;
                    storm.waited_us += wait_us;
                    storm.held_us += hold_us;
                }
                (What::Leaves { mapped }, Some(storm)) => storm.leaves += mapped,
                _ => {}
            }
        }
        storms
    }

    pub(crate) fn starts(self) -> u64 {
        self.starts
    }

    pub(crate) fn per_start(self, amount: f64) -> f64 {
        amount / self.starts.max(1) as f64
    }

    /// How many acquisitions waited per thousand starts.
    pub(crate) fn contended_per_thousand(self) -> f64 {
        self.per_start(self.contended as f64 * 1000.0)
    }

    /// How many of a thousand acquisitions waited.
    pub(crate) fn contended_per_thousand_taken(self) -> f64 {
        self.contended as f64 * 1000.0 / self.taken.max(1) as f64
    }
}

/// The storms on this many processors.
impl Sum for Acquisitions {
    fn sum<I: Iterator<Item = Self>>(storms: I) -> Self {
        storms.fold(Self::default(), |sum, storm| Self {
            storms: sum.storms + storm.storms,
            cpus: storm.cpus,
            replicas: storm.replicas,
            bench: storm.bench,
            starts: sum.starts + storm.starts,
            ns: sum.ns + storm.ns,
            taken: sum.taken + storm.taken,
            taken_in_shards: sum.taken_in_shards + storm.taken_in_shards,
            contended: sum.contended + storm.contended,
            waited_us: sum.waited_us + storm.waited_us,
            held_us: sum.held_us + storm.held_us,
            leaves: sum.leaves + storm.leaves,
        })
    }
}

/// Parses the record, one JSON document per line.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}
