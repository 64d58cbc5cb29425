//! Replacing the mappings of a running process.
//!
//! A copy of text in huge pages is made while the process runs ([`HugeCopy`]). Then all its threads
//! are stopped, one of them maps the copy over the file by injected system calls, what is mapped is
//! checked, and all are let go ([`swap`]). The way back is the same with the file in place of the
//! copy.
//!
//! What holds throughout: the bytes at every address are the same before, between and after, and
//! one call replaces each run, so that whoever executes there (a process that shares the memory and
//! is not stopped) notices nothing; no file is written to; no state is kept outside the process.

mod aside;
mod call;
mod copy;
mod engine;
mod maps;
mod pass;
mod raw;
mod registers;
mod stop;
mod swap;
mod target;

use std::io;

pub use copy::{CopyError, HugeCopy};
pub use engine::{Copies, Outcome, promote, revert};
pub use swap::Pause;
pub use target::{Mappings, Refusal, Target};

/// Why mappings were not replaced. Unless it is [`SwapError::NotUndone`], the process maps what it
/// mapped before.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// It may not be, or cannot be, stopped.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A thread neither stopped nor slept in time.
    #[error("thread {tid} did not stop; try again")]
    DidNotStop {
        /// Its thread id.
        tid: i32,
    },
    /// No thread can be borrowed: all are in an rseq critical section, dispatch their own system
    /// calls, or sleep uninterruptibly.
    #[error("no thread can be made to call the kernel now; try again")]
    NoThread,
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
    /// The inode of a file changed while it was compared: written to, linked, renamed or given away.
    #[error("the program file or its attributes changed meanwhile; try again")]
    FileChanged,
    /// It may not have that many more open files.
    #[error("it may not open enough more files (RLIMIT_NOFILE)")]
    TooManyFiles,
    /// The kernel refused an injected call.
    #[error("{call} in the process: {error}")]
    Refused {
        /// Which.
        call: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// /proc/PID/maps did not show what was mapped; it has been undone.
    #[error("the mapping at {at:#x} did not come out as asked; undone")]
    Unverified {
        /// The address.
        at: u64,
    },
    /// What was changed could not be changed back.
    #[error("a failed change at {at:#x} could not be undone: {error}")]
    NotUndone {
        /// The address.
        at: u64,
        /// What the kernel said.
        error: io::Error,
    },
    /// ptrace or /proc failed in the middle; the process was let go as it was.
    #[error("tracing failed: {0}")]
    Trace(io::Error),
}
