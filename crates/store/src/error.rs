//! Why the store has no entry for a file.

use std::io;
use std::path::{Path, PathBuf};

use hugetext_host::ReplaceError;

/// An error of the writer of an entry.
pub type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// Why the store has no entry for a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Other users control the directory, or one above it.
    #[error("the store {path} is not safe to use: {reason}")]
    Unsafe {
        /// The directory or entry.
        path: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// This user may use the store but not change it, or the store is mounted read-only.
    #[error("the store {0} cannot be written by this process")]
    ReadOnly(PathBuf),
    /// A copy was changed after it was made.
    #[error("the copy {0} is damaged")]
    Damaged(PathBuf),
    /// The entry would not fit, even alone.
    #[error("the store is full: {needed} bytes needed, {limit} allowed")]
    Full {
        /// Bytes the entry takes.
        needed: u64,
        /// Bytes the store may take.
        limit: u64,
    },
    /// Other processes have kept it locked longer than this one may wait.
    #[error("the store {0} is busy: another process keeps it locked")]
    Busy(PathBuf),
    /// The original changed while it was copied.
    #[error("the file changed while it was read")]
    Changed,
    /// The original changed so recently, by its ctime and the clock, that a further change might not
    /// show.
    #[error("the file has just changed")]
    JustChanged,
    /// A process may change the original, without a sign of it.
    #[error("a process has the file open for writing")]
    OpenForWriting,
    /// The file `limit` of the store does not hold a number of bytes.
    #[error("{0} is damaged: it must hold a number of bytes")]
    DamagedLimit(PathBuf),
    /// The copy could not be written.
    #[error(transparent)]
    Write(WriteError),
    /// The copy could not get the attributes of the original, or could not be put into place.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The store could not be read or changed.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// An error of the kernel about `path`.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}
