//! Why a process cannot be inspected.

use std::io;
use std::path::Path;

use crate::files::is_root;
use crate::listed::io_error;

/// Why a process cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It does not exist, or no longer exists.
    #[error("no such process")]
    Gone,
    /// It belongs to another user (ptrace access mode check, PTRACE_MODE_READ).
    #[error("not permitted: {}", who_may())]
    Forbidden,
    /// It maps nothing executable.
    #[error("no text: a kernel thread, or a process that has ended")]
    NoText,
    /// The list of its mappings did not come in time, or one of the same user or service is still to come.
    #[error(
        "its mappings cannot be listed: a thread of it, or of another process of the same user or service, holds \
         their lock and waits, perhaps for a filesystem that does not answer, or this machine is too busy"
    )]
    Unresponsive,
    /// The list of its mappings is longer than what is read for one question.
    #[error("it, or another process of the same user, has very many mappings")]
    TooMuch,
    /// proc is not mounted.
    #[error("proc is not mounted; mount it on /proc")]
    NoProc,
    /// /proc could not be read.
    #[error(transparent)]
    Io(io::Error),
}

fn who_may() -> &'static str {
    if is_root() {
        "this user namespace, security module or set of capabilities forbids it"
    } else {
        "choose your own processes, or run as root"
    }
}

impl From<procfs::ProcError> for ProcessError {
    fn from(error: procfs::ProcError) -> Self {
        let error = io_error(error);
        match error.kind() {
            io::ErrorKind::NotFound if !Path::new("/proc/self").exists() => ProcessError::NoProc,
            io::ErrorKind::NotFound => ProcessError::Gone,
            io::ErrorKind::PermissionDenied => ProcessError::Forbidden,
            // A process that has begun to exit has no mappings left to read.
            _ if error.raw_os_error() == Some(libc::ESRCH) => ProcessError::Gone,
            _ => ProcessError::Io(error),
        }
    }
}
