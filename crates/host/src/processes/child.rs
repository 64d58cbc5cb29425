//! Child processes that end with their parent, and work that is done in a child.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::exec::ignore_file_size_signal;

/// Ensures that the child of `command` is killed when the thread that starts it ends for any
/// reason (PR_SET_PDEATHSIG of prctl(2)).
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only async-signal-safe functions may run. `end_with` makes two
    // system calls and allocates nothing.
    unsafe { command.pre_exec(move || end_with(parent)) }
}

fn end_with(parent: rustix::process::Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // If the parent died before the request, the signal is never sent.
    match rustix::process::getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// The reason why work in a child process has no result.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The child process could not be created.
    #[error("no child process: {0}")]
    Start(io::Error),
    /// A signal killed it, usually because of a limit on its memory or time.
    #[error("a child process was ended by {0}")]
    Killed(Signal),
    /// It ended without a result.
    #[error("a child process ended early")]
    Ended,
}

/// Does `work` in a child process and returns its result. The child may meet a limit, a shortage of
/// memory, a filter of system calls or a panic. This process then keeps its namespaces,
/// descriptors, limits, signals and memory. If memory runs out, the kernel kills the child first.
/// The child's standard error is lost.
/// The child stays counted among those that were waited for (RUSAGE_CHILDREN of getrusage(2)).
///
/// The caller must have no other threads than those of [`super::ask`]: a lock that another thread holds would
/// stay locked in the child. A thread that reads, or waits for what to read, holds none.
pub fn in_child<T, F>(work: F) -> Result<T, ChildError>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce() -> T,
{
    let start = |error: rustix::io::Errno| ChildError::Start(error.into());
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(start)?;
    let parent = rustix::process::getpid();
    let news = News::before();
    // SAFETY: the contract requires one thread. So the child finds every lock free and may do
    // whatever this process may do.
    match unsafe { fork() }.map_err(|errno| ChildError::Start(errno.into()))? {
        ForkResult::Child => {
            drop(from);
            let result = catch_unwind(AssertUnwindSafe(|| act(parent, work, to)));
            let status = if matches!(result, Ok(Ok(()))) { 0 } else { 1 };
            // SAFETY: this ends the process without the handlers of exit(3), which only the parent
            // may run.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => {
            drop(to);
            let mut result = Vec::new();
            let read = File::from(from).read_to_end(&mut result);
            let ended = wait(child);
            news.forget(child);
            let result = read.ok().and_then(|_| serde_json::from_slice(&result).ok());
            result.ok_or(ended)
        }
    }
}

fn act<T: Serialize>(
    parent: rustix::process::Pid,
    work: impl FnOnce() -> T,
    to: OwnedFd,
) -> io::Result<()> {
    end_with(parent)?;
    be_expendable();
    let result = serde_json::to_vec(&work())?;
    File::from(to).write_all(&result)
}

/// A failure of one of these calls loses only convenience.
fn be_expendable() {
    // The highest value that exists (proc(5)). Every process may raise its own value.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    // A limit of one byte means no core in a file and none to a program (fs/coredump.c).
    let core = getrlimit(Resource::Core);
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(core.maximum.map_or(1, |maximum| maximum.min(1))),
            ..core
        },
    );
    ignore_file_size_signal();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // SAFETY: both are descriptors of this process, and nothing here owns standard error.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
}

/// The error for a child that returned no result.
fn wait(child: Pid) -> ChildError {
    loop {
        match waitpid(child, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Ok(WaitStatus::Signaled(_, signal, _)) => return ChildError::Killed(signal),
            // ECHILD: SIGCHLD is ignored, so the kernel has kept no status.
            _ => return ChildError::Ended,
        }
    }
}

/// Whether SIGCHLD was already pending. If the caller blocks SIGCHLD, the signal of a child stays
/// pending, also for the program that this process becomes. That program would take it for a
/// signal about its own child.
struct News {
    was_pending: bool,
}

impl News {
    fn before() -> News {
        News {
            was_pending: children_signal_is_pending(),
        }
    }

    /// Removes the pending signal of `child`. One pending signal can stand for several children.
    /// If it reports another child, it is raised again.
    fn forget(&self, child: Pid) {
        if self.was_pending || !children_signal_is_pending() {
            return;
        }
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let children = children_signal();
        // SAFETY: siginfo_t is a plain C struct for which all-zero bytes are a value.
        let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set, the information and the time are live locals.
        let taken =
            unsafe { libc::sigtimedwait(&raw const children, &raw mut told, &raw const now) };
        // SAFETY: if the signal reports a child, the kernel has filled in the fields for a child.
        if taken == libc::SIGCHLD && unsafe { told.si_pid() } != child.as_raw() {
            let _ = nix::sys::signal::raise(Signal::SIGCHLD);
        }
    }
}

fn children_signal() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset() initializes the set, to which sigaddset() then adds.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        set.assume_init()
    }
}

fn children_signal_is_pending() -> bool {
    let mut pending = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigpending() fills in the set. If it fails, the set is not read.
    unsafe {
        libc::sigpending(pending.as_mut_ptr()) == 0
            && libc::sigismember(pending.as_ptr(), libc::SIGCHLD) == 1
    }
}
