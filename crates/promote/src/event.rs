//! What the tracer is told of a thread, and how it waits for that.

use std::io;
use std::time::{Duration, Instant};

use hugetext_host::{ProcessStatus, Tid};
use nix::sys::ptrace;
use rustix::process::{WaitOptions, WaitStatus, waitpid};

use crate::raw;

/// PTRACE_EVENT_STOP (include/uapi/linux/ptrace.h): the stop that PTRACE_INTERRUPT requests, and
/// group-stop.
const EVENT_STOP: i32 = 128;
/// How threads are traced. A stop at a system call can be distinguished from a signal.
pub(crate) const OPTIONS: ptrace::Options = ptrace::Options::PTRACE_O_TRACESYSGOOD;
/// How long a borrowed thread may take from one stop to the next. In between, it only enters or
/// leaves a system call that waits for nothing. So this limit is reached only where the thread gets
/// no processor, as in a control group that has used up its quota for several periods. The change
/// cannot be undone without the thread either, and a thread whose registers cannot be restored is
/// killed. So waiting harms less than giving up.
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for an event of a borrowed thread before it is checked again.
const ALERT: Duration = Duration::from_millis(1);

/// The event that a wait reported for a thread.
pub(crate) enum Event {
    /// In PTRACE_EVENT_STOP.
    Stop,
    /// At the entry or exit of a system call.
    Syscall,
    /// About to take a signal.
    Signal(i32),
    /// It has ended.
    Ended,
}

impl Event {
    fn of(status: WaitStatus) -> Event {
        const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
        match (status.stopping_signal(), status.as_raw() >> 16) {
            (Some(_), EVENT_STOP) => Event::Stop,
            (Some(SYSCALL_STOP), _) => Event::Syscall,
            (Some(signal), _) => Event::Signal(signal),
            (None, _) => Event::Ended,
        }
    }

    /// Waits for the next event of a running thread. Fails with TimedOut if none arrives within
    /// [`CALL_PATIENCE`].
    pub(crate) fn wait(tid: Tid) -> io::Result<Event> {
        let begun = Instant::now();
        loop {
            if let Some(event) = Event::look(tid, WaitOptions::NOHANG)? {
                return Ok(event);
            }
            if is_dead(tid) {
                return Ok(Event::Ended);
            }
            if begun.elapsed() > CALL_PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            raw::wait_for_news(ALERT);
        }
    }

    /// Waits for the next event of a running thread, however long that takes.
    pub(crate) fn next(tid: Tid) -> io::Result<Event> {
        loop {
            if let Some(event) = Event::look(tid, WaitOptions::empty())? {
                return Ok(event);
            }
        }
    }

    pub(crate) fn look(tid: Tid, options: WaitOptions) -> io::Result<Option<Event>> {
        match waitpid(Some(tid.into()), options) {
            Ok(found) => Ok(found.map(|(_, status)| Event::of(status))),
            Err(rustix::io::Errno::CHILD) => Ok(Some(Event::Ended)),
            Err(rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a thread has ended. The end of a process' first thread is reported only after those of all
/// others, which nobody may be waiting for (kernel/exit.c, delay_group_leader()).
pub(crate) fn is_dead(tid: Tid) -> bool {
    ProcessStatus::of_thread(tid).map_or(true, |status| status.is_ending())
}
