//! Text that processes map, as the kernel tells profilers (perf_event_open(2), `mmap2` and `task`): each
//! program and each library, with its inode, of every process in every container. Needs CAP_PERFMON
//! (Linux 5.8; before that CAP_SYS_ADMIN), and no other power.
//!
//! The records of a processor wait in a buffer until they are read. What does not fit is lost, and the
//! kernel counts it.

use std::path::PathBuf;

use hugetext_leaf::FileId;

use crate::processes::Pid;

/// A file, as the kernel knows it. A number that is used again has another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappedFile {
    /// Its numbers, as /proc/PID/maps gives them.
    pub id: FileId,
    /// Generation of the inode; 0 where the filesystem has none.
    pub generation: u64,
}

/// What a process did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sideband {
    /// It mapped a file executable: at its start, or later (dlopen(3)).
    Text {
        /// The process.
        pid: Pid,
        /// The file.
        file: MappedFile,
        /// Its path, as the root directory of the process shows it.
        path: PathBuf,
    },
    /// `parent` has a new child.
    Fork {
        /// The process that forked.
        parent: Pid,
        /// The new process.
        child: Pid,
    },
    /// It has ended.
    Exit {
        /// The process.
        pid: Pid,
    },
    /// So many records were lost.
    Lost(u64),
}
