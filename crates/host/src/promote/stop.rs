//! Stopping every thread of a process, and letting all of them go again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::unistd::Pid as NixPid;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::SwapError;
use super::raw;
use super::registers::{self, Registers};
use super::target::{Refusal, Status, Target};

/// PTRACE_EVENT_STOP (include/uapi/linux/ptrace.h): the stop that PTRACE_INTERRUPT asks for, and
/// group-stop.
const EVENT_STOP: i32 = 128;
/// How threads are traced: stops at system calls are told from signals.
pub(super) const OPTIONS: ptrace::Options = ptrace::Options::PTRACE_O_TRACESYSGOOD;
/// How long threads may take to stop. They do as soon as they get a processor, so that this passes
/// only where processes have to wait that long for one. Giving up is the worse choice: a call that
/// was interrupted and gave up is made anew only in a stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// After this long a thread that has not stopped is looked at for uninterruptible sleep.
const DOUBT: Duration = Duration::from_millis(5);
/// How long to wait at least before threads are looked at again.
const NAP: Duration = Duration::from_micros(20);
/// How long a borrowed thread may take from one stop to the next. It does nothing in between but enter
/// or leave a call of ours that waits for nothing.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for news of a borrowed thread before it is looked at again.
const ALERT: Duration = Duration::from_millis(1);

/// A process none of whose threads executes an instruction of its own.
///
/// Invariants: every thread of `stopped` is in PTRACE_EVENT_STOP. Every other live thread of the
/// process but the kernel's own, which execute no text, is in uninterruptible sleep inside the kernel (vfork(2) waiting for its child, say) with
/// the stop pending, which it takes before it returns to user mode. No new thread can appear, for
/// who would make it is stopped. Other processes that share the memory (a vfork child before exec)
/// may run.
///
/// All ptrace requests are tied to the OS thread that made this value, and its end is what lets the
/// process go, or what [`Stopped::leave`] left of it: the kernel then detaches everything in one go
/// under the lock of the task list (kernel/ptrace.c, exit_ptrace()), whatever the reason for the end.
/// One by one would leave moments in which a signal that the process ignores, queued because its
/// thread is still traced, wakes one that is not (kernel/signal.c, sig_ignored() and
/// complete_signal()).
pub(super) struct Stopped<'t> {
    pub(super) target: &'t Target,
    stopped: Vec<i32>,
    asleep: Vec<i32>,
    ended: BTreeSet<i32>,
    /// The kernel's own threads of the process, which are left alone: see [`Target::executes`].
    workers: BTreeSet<i32>,
    /// When the first thread was interrupted.
    pub(super) since: Instant,
}

/// What a wait told of a thread.
pub(super) enum Event {
    /// In PTRACE_EVENT_STOP.
    Stop,
    /// At the entry or exit of a system call.
    Syscall,
    /// About to take a signal.
    Signal(i32),
    /// Gone.
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

    /// Waits for the next event of a thread that runs; TimedOut if none comes in [`CALL_PATIENCE`].
    pub(super) fn wait(tid: i32) -> io::Result<Event> {
        let begun = Instant::now();
        loop {
            if let Some(event) = Event::look(tid, WaitOptions::NOHANG)? {
                return Ok(event);
            }
            if begun.elapsed() > CALL_PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            raw::wait_for_news(ALERT);
        }
    }

    fn look(tid: i32, options: WaitOptions) -> io::Result<Option<Event>> {
        match waitpid(Pid::from_raw(tid), options) {
            Ok(found) => Ok(found.map(|(_, status)| Event::of(status))),
            Err(rustix::io::Errno::CHILD) => Ok(Some(Event::Ended)),
            Err(error) => Err(error.into()),
        }
    }
}

impl<'t> Stopped<'t> {
    /// Stops all threads.
    pub(super) fn stop(target: &'t Target) -> Result<Stopped<'t>, SwapError> {
        let mut all = Stopped {
            target,
            stopped: Vec::new(),
            asleep: Vec::new(),
            ended: BTreeSet::new(),
            workers: BTreeSet::new(),
            since: Instant::now(),
        };
        // A thread may make another until it is stopped itself, so look until none is new.
        let mut first = true;
        loop {
            let listed = target.threads().map_err(Refusal::from)?;
            let unknown = listed.into_iter().filter(|tid| !all.knows(*tid));
            let (new, workers): (Vec<i32>, Vec<i32>) =
                unknown.partition(|tid| target.executes(*tid));
            all.workers.extend(workers);
            if new.is_empty() {
                break;
            }
            let seized = all.seize(new)?;
            if first {
                all.since = Instant::now();
                first = false;
            }
            all.interrupt(seized)?;
        }
        if all.stopped.is_empty() && all.asleep.is_empty() {
            return Err(Refusal::Gone.into());
        }
        Ok(all)
    }

    fn knows(&self, tid: i32) -> bool {
        self.stopped.contains(&tid)
            || self.asleep.contains(&tid)
            || self.ended.contains(&tid)
            || self.workers.contains(&tid)
    }

    /// Attaches without stopping. All threads are attached to before one is stopped: the kernel
    /// queues signals that the process ignores if they are for a thread that is traced, and when
    /// that one is stopped, wakes any other for them (kernel/signal.c, sig_ignored() and
    /// complete_signal()). One not held would see calls interrupted for no reason.
    fn seize(&mut self, threads: Vec<i32>) -> Result<Vec<i32>, SwapError> {
        let mut seized = Vec::with_capacity(threads.len());
        for tid in threads {
            match ptrace::seize(NixPid::from_raw(tid), OPTIONS) {
                Ok(()) => seized.push(tid),
                Err(nix::Error::ESRCH) => {
                    self.ended.insert(tid);
                }
                // What has exited cannot be attached to either.
                Err(nix::Error::EPERM) if self.has_ended(tid) => {
                    self.ended.insert(tid);
                }
                Err(_) => {
                    let tracer = self.status(tid).and_then(|status| status.tracer());
                    if let Some(by) = tracer {
                        return Err(Refusal::Traced { by }.into());
                    }
                    // A tracer may have let it go since.
                    let again = ptrace::seize(NixPid::from_raw(tid), OPTIONS);
                    again.map_err(|error| Refusal::from(io::Error::from(error)))?;
                    seized.push(tid);
                }
            }
        }
        Ok(seized)
    }

    fn has_ended(&self, tid: i32) -> bool {
        self.status(tid).is_none_or(|status| status.is_ending())
    }

    pub(super) fn status(&self, tid: i32) -> Option<Status> {
        Status::read(&format!("/proc/{}/task/{tid}/status", self.target.pid())).ok()
    }

    fn interrupt(&mut self, seized: Vec<i32>) -> Result<(), SwapError> {
        for tid in &seized {
            // ESRCH: it has ended, which the wait below tells.
            let _ = ptrace::interrupt(NixPid::from_raw(*tid));
        }
        match self.wait(seized)?.first() {
            Some(&tid) => Err(SwapError::DidNotStop { tid }),
            None => Ok(()),
        }
    }

    /// Waits until threads have stopped, or sleep uninterruptibly; those that do neither in time.
    fn wait(&mut self, threads: Vec<i32>) -> Result<Vec<i32>, SwapError> {
        let begun = Instant::now();
        let mut pending = threads;
        loop {
            let look = Instant::now();
            let mut still = Vec::new();
            for tid in pending {
                match Event::look(tid, WaitOptions::NOHANG).map_err(SwapError::Trace)? {
                    Some(Event::Stop) => {
                        self.stopped.push(tid);
                        self.renew_call(tid);
                    }
                    Some(Event::Ended) => {
                        self.ended.insert(tid);
                    }
                    // It was about to take a signal when it was seized. It takes it, which only
                    // prepares the handler's frame, and then stops.
                    Some(Event::Signal(signal)) => {
                        let _ = raw::deliver(tid, signal);
                        still.push(tid);
                    }
                    Some(Event::Syscall) | None => still.push(tid),
                }
            }
            pending = still;
            if begun.elapsed() > DOUBT {
                pending.retain(|tid| {
                    let sleeps = self.status(*tid).and_then(|status| status.state()) == Some('D');
                    if sleeps {
                        self.asleep.push(*tid);
                    }
                    !sleeps
                });
            }
            if pending.is_empty() || begun.elapsed() > PATIENCE {
                return Ok(pending);
            }
            // This thread may run before all others. Half of the time is left to those it waits for.
            std::thread::sleep(NAP.max(look.elapsed()));
        }
    }

    /// Threads of the process that are held.
    pub(super) fn threads(&self) -> usize {
        self.stopped.len() + self.asleep.len()
    }

    /// Whether all threads but `tid` can be let go before it: not if that is the first one, for which
    /// signals to the process are taken to be while they are queued (kernel/signal.c,
    /// sig_ignored()), nor if one cannot be detached from where it sleeps.
    pub(super) fn can_leave(&self, tid: i32) -> bool {
        tid != self.target.pid() && self.asleep.is_empty() && self.stopped.len() > 1
    }

    /// Lets all threads but `tid` go. The first one of the process goes first: from then on signals
    /// that the process ignores are dropped, as ever.
    pub(super) fn leave(&mut self, tid: i32) {
        let first = self.target.pid();
        self.stopped.sort_by_key(|thread| *thread != first);
        for thread in self.stopped.iter().filter(|thread| **thread != tid) {
            // One that cannot be detached from has been killed.
            let _ = ptrace::detach(NixPid::from_raw(*thread), None);
        }
        self.stopped.retain(|thread| *thread == tid);
    }

    /// The threads that can be made to call, with their registers; the first one of the process last,
    /// since the others cannot be let go before it.
    pub(super) fn registers(&self) -> Vec<(i32, Registers)> {
        let read = |tid: &i32| Some((*tid, ptrace::getregs(NixPid::from_raw(*tid)).ok()?));
        let mut threads: Vec<i32> = self.stopped.clone();
        threads.sort_by_key(|thread| *thread == self.target.pid());
        threads.iter().filter_map(read).collect()
    }

    /// Has a call made anew that gave up with EINTR because of the stop, unless a handler is to run:
    /// what the kernel does by itself for most others. One that waits for a time then waits for all
    /// of it again.
    fn renew_call(&self, tid: i32) {
        let Ok(regs) = ptrace::getregs(NixPid::from_raw(tid)) else {
            return;
        };
        let Some((call, again)) = registers::interrupted(&regs) else {
            return;
        };
        let is_socket = |fd: u64| {
            let link = format!("/proc/{}/task/{tid}/fd/{fd}", self.target.pid());
            fs::read_link(link)
                .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(b"socket:"))
        };
        if call.did_nothing(is_socket) {
            // A thread that cannot be written to has been killed.
            let _ = ptrace::setregs(NixPid::from_raw(tid), again);
        }
    }
}
