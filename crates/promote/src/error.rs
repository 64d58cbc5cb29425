//! Why mappings were not replaced.

use std::io;
use std::time::Duration;

use hugetext_host::Tid;

use crate::refusal::Refusal;

/// Why mappings were not replaced. Except for [`SwapError::NotUndone`], the process maps the same
/// as before.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// The process may not be stopped or cannot be stopped.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A thread neither stopped nor slept uninterruptibly in time.
    #[error(
        "thread {tid} did not stop within {} s, as it got no processor; try again when the machine is less busy",
        .after.as_secs()
    )]
    DidNotStop {
        /// Its thread id.
        tid: Tid,
        /// How long it had.
        after: Duration,
    },
    /// No thread can be borrowed: all are in an rseq critical section, dispatch their own system
    /// calls, or sleep uninterruptibly.
    #[error("no thread can be made to call the kernel now; try again")]
    NoThread,
    /// The vDSO has no room for the code that ends a change if nobody else does.
    #[error(
        "its vDSO has no room: each hugetext that was killed in the middle of a stop took some; only a restart gives it back"
    )]
    NoRoom,
    /// Every thread waits inside the kernel and cannot be interrupted.
    #[error(
        "all its threads wait uninterruptibly inside the kernel, as in vfork(2) for a child that has not \
         executed its program yet; try again"
    )]
    Asleep,
    /// Its threads do not run before somebody thaws its cgroup.
    #[error("its cgroup is frozen; thaw it first")]
    Frozen,
    /// The change would have taken longer than the user permits. It was undone.
    #[error("it would have stood still for more than {} ms, so the change was given up", .0.as_millis())]
    TooLong(Duration),
    /// Mappings changed while the copy was made.
    #[error("its mappings at {at:#x} changed meanwhile; try again")]
    Moved {
        /// The address.
        at: u64,
    },
    /// Text was written to while the copy was made.
    #[error("its text at {at:#x} was changed in memory meanwhile")]
    Changed {
        /// The page.
        at: u64,
    },
    /// The inode of a file changed while it was compared: it was written, linked, renamed or given
    /// away.
    #[error("the program file or its attributes changed meanwhile; try again")]
    FileChanged,
    /// The process may not open enough files.
    #[error("it may not open enough more files (RLIMIT_NOFILE)")]
    TooManyFiles,
    /// The process may open more files, but the kernel did not give it these.
    #[error("a security module, such as SELinux, does not let it have the files with its text")]
    FilesRefused,
    /// The process has nearly as many mappings as the kernel permits.
    #[error("it has {mapped} mappings, of at most {most}; raise vm.max_map_count")]
    TooManyMappings {
        /// How many it has.
        mapped: usize,
        /// How many the kernel permits.
        most: usize,
    },
    /// The kernel refused an injected call.
    #[error("{call} in the process: {error}")]
    Refused {
        /// The call.
        call: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// /proc/PID/maps did not show the new mapping; the change has been undone.
    #[error("the mapping at {at:#x} is not the requested one; the change was undone")]
    Unverified {
        /// The address.
        at: u64,
    },
    /// A change could not be undone.
    #[error("a failed change at {at:#x} could not be undone: {error}")]
    NotUndone {
        /// The address.
        at: u64,
        /// The kernel's error.
        error: io::Error,
    },
    /// ptrace or /proc failed during the change; the process was released unchanged.
    #[error("tracing failed: {0}")]
    Trace(io::Error),
}
