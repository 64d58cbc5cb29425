//! What the daemon says about itself: a document in a file, which `auto status`, `auto why` and `auto top`
//! read. There is one for root, and one for everybody, without names that are not everybody's to know.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use hugetext_engine::prepare::AUTOPILOT_DIRECTORY as DIRECTORY;
use hugetext_engine::prepare::{AdvisedFile, ReplicaAdvice};
use hugetext_host::{Pid, Place, open_regular};
use hugetext_leaf::hold::{Costs, SystemCallCost};
use hugetext_leaf::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::author::{Author, DaemonState};
use crate::config::Mode;
pub use crate::file_state::State;
use crate::reason::Cause;
use crate::sight::SourceName;

/// The document for root.
const ALL: &str = "all.json";
/// The document for everybody.
const PUBLIC: &str = "public.json";
/// How often the documents are written at least.
pub const EVERY: Duration = Duration::from_secs(10);
/// The most bytes of a document that are read.
const LONGEST: u64 = 64 << 20;

/// A file, and why what is done about it is done.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FileStatus {
    /// Where this machine opens it.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Its name for the processes that run it.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub name: PathBuf,
    /// What is done.
    pub state: State,
    /// The name of the reason, as in metrics.
    #[serde(default)]
    pub cause: Cause,
    /// Why.
    pub reason: String,
    /// Starts that are remembered.
    pub starts: f64,
    /// Nanoseconds of processor time that are remembered; absent if it was not counted, as that of processes that end
    /// between two looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Bytes of windows; without windows, of text.
    pub bytes: u64,
    /// Windows; 0 for text without windows, which is brought into the largest folios.
    pub windows: u64,
    /// Windows that are held, all of them huge.
    pub huge: u64,
    /// Nanoseconds that holding it is expected to save over the next half-life.
    pub saves_ns: u64,
    /// How many users it is run by.
    pub users: usize,
    /// How many control groups it is run by.
    pub cgroups: usize,
    /// Whether every user may read it.
    pub public: bool,
}

/// What the machine pays, as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CostStatus {
    /// Nanoseconds of a page fault.
    pub fault_ns: u64,
    /// Nanoseconds to fill a window.
    pub fill_ns: u64,
    /// By how many parts in a thousand of its time a pass over 256 pages of text slows down behind a system call because
    /// leaves map it; absent if it could not be measured. It may be negative, since it is a difference of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_call_per_mille: Option<i64>,
    /// The share of processor time that huge text is expected to save; negative where programs of many system calls lose.
    pub share: f64,
    /// Whether the share was configured.
    pub is_share_set: bool,
}

impl From<&Costs> for CostStatus {
    fn from(costs: &Costs) -> CostStatus {
        CostStatus {
            fault_ns: costs.fault as u64,
            fill_ns: costs.fill as u64,
            system_call_per_mille: costs.system_call.map(SystemCallCost::per_mille),
            share: costs.share(),
            is_share_set: costs.set_share.is_some(),
        }
    }
}

/// A file that many processes start with at once, or that nodes fetch from each other, and whether copies are
/// worth it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ReplicaStatus {
    /// Its name for the processes that run it; absent in the document for everybody.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "hugetext_host::lossy::optional_path"
    )]
    #[schemars(with = "Option<String>")]
    pub name: Option<PathBuf>,
    /// What was seen, and the decision.
    #[serde(flatten)]
    pub advised: AdvisedFile,
}

/// What was lost or given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Losses {
    /// Records of the kernel that were lost.
    pub records: u64,
    /// Starts that were not counted, because too many new files came at once.
    pub starts: u64,
    /// Looks at files, looks at processes that spend time, and fills, that took too long and were given up.
    pub given_up: u64,
}

impl Losses {
    /// Counts what was given up.
    pub(crate) fn gave_up(&mut self, times: u64) {
        self.given_up = self.given_up.saturating_add(times);
    }
}

/// How often memory was short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stalls {
    /// Some tasks waited.
    pub some: u64,
    /// All tasks waited.
    pub full: u64,
    /// Tasks waited while memory was plenty: until it was compacted, or until pages that nobody missed
    /// were dropped. Nothing was given up.
    pub plenty: u64,
    /// No task waited long, but much of what others need was dropped and read again.
    #[serde(default)]
    pub missed: u64,
    /// A control group was at its limit.
    pub cgroups: u64,
    /// The longest time from the kernel's report that tasks waited until memory was unlocked for them, in
    /// microseconds. The kernel reports a wait within 50 ms.
    #[serde(default)]
    pub slowest_us: u64,
}

/// What the daemon is and does.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: Pid,
    /// Which process of that number it is.
    #[serde(flatten)]
    pub author: Author,
    /// Seconds since the epoch when this was written.
    pub written: u64,
    /// Whether it acts.
    pub mode: Mode,
    /// How it sees starts.
    pub source: SourceName,
    /// Why better sources are not used, and what else does not work.
    pub problems: Vec<String>,
    /// Nanoseconds for which this machine was watched in all.
    pub watched_ns: u64,
    /// The half-life in nanoseconds.
    pub half_life_ns: u64,
    /// What the machine pays.
    pub costs: CostStatus,
    /// What huge text gives on it, as `hugetext host` says; absent in documents of before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Bytes that the administrator allows.
    pub budget: u64,
    /// Bytes that may be held now.
    pub allowed: u64,
    /// Bytes held.
    pub held: u64,
    /// Bytes of these that the administrator's lists name.
    pub listed: u64,
    /// Files of the lists that are held.
    pub listed_files: usize,
    /// Processes that were promoted and live.
    #[serde(default)]
    pub promoted: usize,
    /// Bytes of these that are held, as copies for promoted processes.
    #[serde(default)]
    pub promoted_bytes: u64,
    /// Nanoseconds that what is held is expected to save over the next half-life.
    pub saves_ns: u64,
    /// What was lost.
    pub losses: Losses,
    /// When memory was short.
    pub stalls: Stalls,
    /// The daemon's own processor time in nanoseconds.
    pub own_cpu_ns: u64,
    /// The daemon's own anonymous memory in bytes.
    pub own_bytes: u64,
    /// Files of which nothing can be held, because they are no programs or too small.
    pub small: usize,
    /// The files, those that save most first.
    pub files: Vec<FileStatus>,
    /// The files of which copies may be worth it, those with most starts first.
    pub replicas: Vec<ReplicaStatus>,
}

impl Status {
    /// How long ago it was written.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        Duration::from_secs(now.saturating_sub(self.written))
    }

    /// Whether its daemon runs, as far as this process may see it.
    pub fn daemon(&self) -> DaemonState {
        self.author.state(self.pid, self.age(), EVERY * 3)
    }

    /// Writes all documents into `directory`.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        self.advice().write(directory)?;
        let public = Status {
            files: self
                .files
                .iter()
                .filter(|file| file.public)
                .cloned()
                .collect(),
            problems: self.problems.clone(),
            replicas: self
                .replicas
                .iter()
                .map(|replica| ReplicaStatus {
                    name: None,
                    ..*replica
                })
                .collect(),
            ..*self
        };
        write(&directory.join(ALL), 0o600, self)?;
        write(&directory.join(PUBLIC), 0o644, &public)
    }

    /// What programs that start commands may know.
    fn advice(&self) -> ReplicaAdvice {
        ReplicaAdvice {
            written: self.written,
            files: self.replicas.iter().map(|found| found.advised).collect(),
        }
    }

    /// Reads the document that this user may read.
    pub fn read(directory: &Path) -> io::Result<Status> {
        let open = |name| open_regular(&directory.join(name));
        let file = open(ALL).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => open(PUBLIC),
            _ => Err(error),
        })?;
        let text = io::read_to_string(io::Read::take(file, LONGEST))?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// Removes all documents.
    pub fn remove(directory: &Path) {
        ReplicaAdvice::remove(directory);
        for name in [ALL, PUBLIC] {
            // Without a daemon, nobody reads them.
            let _ = Place::at(&directory.join(name)).and_then(|place| place.remove());
        }
    }
}

fn write(path: &Path, mode: u32, status: &Status) -> io::Result<()> {
    let text = serde_json::to_vec(status).map_err(io::Error::other)?;
    Place::at(path)?.put(&text, mode)
}
