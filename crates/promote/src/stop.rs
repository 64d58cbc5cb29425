//! Stops every thread of a process, and releases all of them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use hugetext_host::{ProcessStatus, Tid};
use nix::sys::ptrace;
use rustix::process::WaitOptions;

use crate::arch::{Architecture, Decision, Native, Registers};
use crate::call::Caller;
use crate::error::SwapError;
use crate::event::{Event, OPTIONS, is_dead};
use crate::raw;
use crate::refusal::Refusal;
use crate::target::Target;
use crate::waiting::WaitingCall;

/// How long all threads may take to stop. A thread stops as soon as it gets a processor, so this limit
/// is reached only where processes wait that long for a processor. Giving up is worse than
/// waiting: a call that failed because of the interruption is made again only in a stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much longer a stop lasts than the user permits, so that no call of a thread ends that has got a processor by then.
const GRACE: Duration = Duration::from_millis(100);
/// If a thread has not stopped after this time, its state is checked for uninterruptible sleep.
const DOUBT: Duration = Duration::from_millis(5);
/// The shortest time between two checks of the threads.
const NAP: Duration = Duration::from_micros(20);
/// A stopped process: no thread of it executes its own instructions.
///
/// Invariants: every thread of `stopped` is in PTRACE_EVENT_STOP. The kernel's own threads of the
/// process execute no text and are left alone. Every other live thread is in uninterruptible sleep
/// inside the kernel, for example in vfork(2), waiting for its child. It has the stop pending and
/// takes it before it returns to user mode. No new thread can appear, because every thread that
/// could create one is stopped. Other processes that share the memory (a vfork child before exec)
/// may run.
///
/// All ptrace requests are tied to the OS thread that made this value. When that thread ends, for
/// any reason, the kernel releases the process. It then detaches all threads at once, under the lock
/// of the task list (kernel/ptrace.c, exit_ptrace()). Detaching the threads one by one would be
/// wrong where a child may end meanwhile: see [`Stopped::can_continue`].
pub(crate) struct Stopped<'t> {
    pub(crate) target: &'t Target,
    stopped: Vec<Tid>,
    asleep: Vec<Tid>,
    /// The calls in which threads waited before they were interrupted: see
    /// [`Architecture::waiting_call`].
    waiting: BTreeMap<Tid, WaitingCall>,
    /// When the first thread was interrupted.
    pub(crate) since: Instant,
    /// How long the process may stand still, if the user has said so.
    limit: Option<Duration>,
}

impl<'t> Stopped<'t> {
    /// Stops all threads. The process may stand still for `limit` at most; without one, threads have
    /// [`PATIENCE`] to stop.
    pub(crate) fn stop(
        target: &'t Target,
        limit: Option<Duration>,
    ) -> Result<Stopped<'t>, SwapError> {
        let mut all = Stopped {
            target,
            stopped: Vec::new(),
            asleep: Vec::new(),
            waiting: BTreeMap::new(),
            since: Instant::now(),
            limit,
        };
        // A thread may create another until it is stopped itself. So the search is repeated until
        // it finds no new thread.
        let mut first = true;
        // The kernel's own threads of the process are left alone: see [`Target::executes`].
        let mut known = BTreeSet::new();
        loop {
            let listed = target.threads().map_err(Refusal::from)?;
            let unknown = listed.into_iter().filter(|tid| known.insert(*tid));
            let new: Vec<Tid> = unknown.filter(|tid| target.executes(*tid)).collect();
            if new.is_empty() {
                break;
            }
            // A thread that has stopped is woken by no signal. So when the end of a child begins to
            // send one, no call of another thread can end.
            let (parents, others) = new.into_iter().partition(|tid| all.is_parent(*tid));
            for group in [others, parents] {
                let seized = all.seize(group)?;
                if first {
                    all.since = Instant::now();
                    first = false;
                }
                all.interrupt(seized)?;
            }
        }
        if all.stopped.is_empty() && all.asleep.is_empty() {
            return Err(Refusal::Gone.into());
        }
        // These are its threads, and not those of a process that got its number. From now on it can
        // only be killed, and then ptrace says so.
        target.ensure_alive()?;
        Ok(all)
    }

    /// An error if the process has stood still for too long, counted with what is still to be done.
    pub(crate) fn keep_limit(&self, ahead: Duration) -> Result<(), SwapError> {
        match self.limit {
            Some(limit) if self.since.elapsed() + ahead > limit => Err(SwapError::TooLong(limit)),
            _ => Ok(()),
        }
    }

    /// Whether no thread can be made to do anything.
    pub(crate) fn is_asleep(&self) -> bool {
        self.stopped.is_empty()
    }

    /// Attaches without stopping. All threads of a group are attached to before the first one is stopped.
    /// The reason: if a thread is traced, the kernel queues signals for it that the process ignores.
    /// When that thread is stopped, the kernel wakes any other thread for them (kernel/signal.c,
    /// sig_ignored() and complete_signal()). A thread that is not attached to would then see calls
    /// interrupted for no reason.
    fn seize(&mut self, threads: Vec<Tid>) -> Result<Vec<Tid>, SwapError> {
        let mut seized = Vec::with_capacity(threads.len());
        for tid in threads {
            match ptrace::seize(tid.into(), OPTIONS) {
                Ok(()) => seized.push(tid),
                Err(nix::Error::ESRCH) => {}
                // A thread that has exited cannot be attached to either.
                Err(nix::Error::EPERM) if is_dead(tid) => {}
                Err(_) => {
                    let tracer = self.status(tid).and_then(|status| status.tracer());
                    if let Some(by) = tracer {
                        return Err(Refusal::Traced { by }.into());
                    }
                    // Another tracer may have released the thread since the first attempt.
                    let again = ptrace::seize(tid.into(), OPTIONS);
                    again.map_err(|error| Refusal::from(io::Error::from(error)))?;
                    seized.push(tid);
                }
            }
        }
        Ok(seized)
    }

    pub(crate) fn status(&self, tid: Tid) -> Option<ProcessStatus> {
        ProcessStatus::of_thread_in(self.target.pid(), tid).ok()
    }

    fn interrupt(&mut self, seized: Vec<Tid>) -> Result<(), SwapError> {
        for tid in &seized {
            if let Some(call) = Native::waiting_call(*tid) {
                self.waiting.insert(*tid, call);
            }
            // ESRCH: the thread has ended. The wait below reports that.
            let _ = ptrace::interrupt((*tid).into());
        }
        let limit = self.limit.filter(|limit| *limit < PATIENCE);
        // The process may create threads faster than they get a processor.
        let left = limit
            .unwrap_or(PATIENCE)
            .saturating_sub(self.since.elapsed());
        let late = self.wait(seized, left)?;
        match (late.first(), limit) {
            (None, _) => Ok(()),
            (Some(_), Some(limit)) => Err(self.give_up(late, limit)?),
            (Some(&tid), None) => Err(did_not_stop(tid)),
        }
    }

    /// Ends a stop that takes longer than the `limit` of the user. The threads in `late` are
    /// interrupted already, and only in a stop can a call that failed because of that be made again.
    /// So they are waited for, while the others continue: at once if they can, and otherwise after [`GRACE`].
    fn give_up(&mut self, mut late: Vec<Tid>, limit: Duration) -> Result<SwapError, SwapError> {
        /// Longer than [`DOUBT`].
        const TURN: Duration = Duration::from_millis(10);
        if !self.can_continue(&late) {
            late = self.wait(late, GRACE)?;
        }
        let begun = Instant::now();
        self.let_go();
        while !late.is_empty() && begun.elapsed() < PATIENCE {
            late = self.wait(late, TURN)?;
            self.let_go();
        }
        let never = late.first().map(|tid| did_not_stop(*tid));
        Ok(never.unwrap_or(SwapError::TooLong(limit)))
    }

    /// Whether the stopped threads can be released while those in `late` are still traced. A signal that
    /// the process ignores is queued if the thread that it is sent to is traced, and it wakes a thread
    /// that is not, whose call then ends with EINTR (kernel/signal.c, sig_ignored() and
    /// complete_signal()). A signal to the process is sent to its first thread, and SIGCHLD to the
    /// thread that created the child. A thread that sleeps uninterruptibly cannot be detached from.
    fn can_continue(&self, late: &[Tid]) -> bool {
        self.asleep.is_empty()
            && self.stopped.contains(&self.target.pid().first_thread())
            && !self
                .stopped
                .iter()
                .chain(late)
                .any(|tid| self.is_parent(*tid))
    }

    /// Whether a thread has created children that live. Without CONFIG_PROC_CHILDREN nobody knows, and
    /// every thread may have.
    fn is_parent(&self, tid: Tid) -> bool {
        let children = format!("/proc/{}/task/{tid}/children", self.target.pid());
        fs::read(children).map_or(true, |children| !children.is_empty())
    }

    /// Lets all stopped threads go, the first one of the process first.
    fn let_go(&mut self) {
        let first = self.target.pid().first_thread();
        self.stopped.sort_by_key(|thread| *thread != first);
        for thread in self.stopped.drain(..) {
            // A thread that cannot be detached from has been killed.
            let _ = ptrace::detach(thread.into(), None);
        }
    }

    /// Waits until threads have stopped or sleep uninterruptibly. Returns the threads that did
    /// neither in time.
    fn wait(&mut self, threads: Vec<Tid>, patience: Duration) -> Result<Vec<Tid>, SwapError> {
        let begun = Instant::now();
        let mut pending = threads;
        loop {
            let look = Instant::now();
            let mut still = Vec::new();
            for tid in pending {
                match Event::look(tid, WaitOptions::NOHANG).map_err(SwapError::Trace)? {
                    Some(Event::Stop) => match self.renew_call(tid) {
                        Renewed::StopsAgain => still.push(tid),
                        Renewed::Stays => self.stopped.push(tid),
                    },
                    Some(Event::Ended) => {}
                    // The thread was about to take a signal when it was seized. It takes the
                    // signal, which only prepares the handler's frame, and then stops.
                    Some(Event::Signal(signal)) => {
                        let _ = raw::deliver(tid, signal);
                        still.push(tid);
                    }
                    Some(Event::Syscall) | None => still.push(tid),
                }
            }
            pending = still;
            if begun.elapsed() > DOUBT {
                let mut running = Vec::new();
                for tid in pending {
                    match self.status(tid) {
                        Some(status) if status.state() == Some('D') => self.asleep.push(tid),
                        Some(status) if !status.is_ending() => running.push(tid),
                        // It has ended.
                        _ => {}
                    }
                }
                pending = running;
            }
            if pending.is_empty() || begun.elapsed() > patience {
                return Ok(pending);
            }
            // This thread may have priority over all others. Half of the time is left to the
            // threads that it waits for.
            std::thread::sleep(NAP.max(look.elapsed()));
        }
    }

    /// The number of threads of the process that are held.
    pub(crate) fn threads(&self) -> usize {
        self.stopped.len() + self.asleep.len()
    }

    /// The threads that can make system calls, with their registers.
    pub(crate) fn registers(&self) -> Vec<(Tid, Registers)> {
        let read = |tid: &Tid| Some((*tid, Native::registers(*tid).ok()?));
        self.stopped.iter().filter_map(read).collect()
    }

    /// Lets the kernel decide again about a call that ended with EINTR because of the stop. The
    /// kernel repeats most other calls by itself. A repeated call with a time limit waits for the
    /// whole time again.
    fn renew_call(&mut self, tid: Tid) -> Renewed {
        // A thread that has made its call again has not waited for anything since.
        let before = self.waiting.remove(&tid);
        let Ok(regs) = Native::registers(tid) else {
            return Renewed::Stays;
        };
        let Some(call) = Native::interrupted(tid, &regs, before.as_ref()) else {
            return Renewed::Stays;
        };
        let is_socket = |fd: u64| {
            let link = format!("/proc/{}/task/{tid}/fd/{fd}", self.target.pid());
            fs::read_link(link)
                .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(b"socket:"))
        };
        if !call.did_nothing(is_socket) {
            return Renewed::Stays;
        }
        match call.decision {
            Decision::OnContinuing(regs) => {
                // A thread whose registers cannot be written has been killed.
                let _ = Native::set_registers(tid, &regs);
                Renewed::Stays
            }
            Decision::Repeated { again, ended } => {
                let number = call.number;
                match Caller::end_again(self.target, tid, number, &again, ended) {
                    Ok(()) => Renewed::StopsAgain,
                    // It has been killed, or got no processor, and makes the call once more.
                    Err(_) => Renewed::Stays,
                }
            }
        }
    }
}

fn did_not_stop(tid: Tid) -> SwapError {
    let after = PATIENCE;
    SwapError::DidNotStop { tid, after }
}

/// What a stopped thread does after [`Stopped::renew_call`].
enum Renewed {
    /// It stays stopped.
    Stays,
    /// It runs, and stops again before it executes another instruction.
    StopsAgain,
}
