use serde::Serialize;

/// A file that every process start maps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its name, for display.
    pub name: String,
    /// How often one process start takes its lock.
    pub trips: u32,
}

/// The cost of one process start. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// Work outside the locks: the time of a start on one core, less that of the trips.
    pub work_ns: f64,
    /// One change of a tree, with the lock held.
    pub tree_ns: f64,
    /// The rest of the time that a lock is held, and taking it when its cache line is local.
    pub lock_ns: f64,
    /// The extra time to take the lock if another core had it last: its cache line travels.
    pub lock_transfer_ns: f64,
    /// The extra time of a change of the tree if another core made the last one.
    pub tree_transfer_ns: f64,
    /// The files, each with its lock.
    pub files: Vec<File>,
}

/// The locking scheme for the reverse map of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One tree, one lock.
    OneLock,
    /// One lock and no tree to change under it. This is the most that splitting trees alone can
    /// gain, and what leaving files out of the reverse map did gain.
    LockOnly,
    /// A tree and a lock in each of this many shards; a core uses one of them.
    Shards(u32),
    /// This many copies of each file, each with one tree and one lock; the processes of a core use one of
    /// them. To the locks that is the same as shards; the kernel needs no change.
    Replicas(u32),
}

impl Scheme {
    /// The locks that one file has.
    pub fn locks(self) -> u32 {
        match self {
            Self::OneLock | Self::LockOnly => 1,
            Self::Shards(locks) | Self::Replicas(locks) => locks.max(1),
        }
    }

    /// How long one trip holds the lock when its cache line is local, in nanoseconds.
    pub fn hold_ns(self, workload: &Workload) -> f64 {
        match self {
            Self::LockOnly => workload.lock_ns,
            Self::OneLock | Self::Shards(_) | Self::Replicas(_) => {
                workload.lock_ns + workload.tree_ns
            }
        }
    }

    /// How much longer it holds the lock if another core had it last, in nanoseconds.
    pub fn transfer_ns(self, workload: &Workload) -> f64 {
        match self {
            Self::LockOnly => workload.lock_transfer_ns,
            Self::OneLock | Self::Shards(_) | Self::Replicas(_) => {
                workload.lock_transfer_ns + workload.tree_transfer_ns
            }
        }
    }
}

impl Workload {
    /// The trips of one process start, in the order of their files, as indices into `files`.
    /// Trips to one file follow each other, as in mapping the segments of a library.
    pub(crate) fn route(&self) -> Vec<usize> {
        let trips = |(index, file): (usize, &File)| vec![index; file.trips as usize];
        self.files.iter().enumerate().flat_map(trips).collect()
    }
}
