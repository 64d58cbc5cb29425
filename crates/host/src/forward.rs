//! Signals that this process gets and a child is to have.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, signal,
};
use rustix::process::pidfd_send_signal;

use crate::deadline::Running;

/// The child's pidfd; -1 for none.
static CHILD: AtomicI32 = AtomicI32::new(-1);

/// Requests to end.
const ENDS: [Signal; 2] = [Signal::SIGHUP, Signal::SIGTERM];
/// What the terminal sends to all of its foreground.
const TERMINAL: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// As long as it lives, a request to end goes to the child, and this process goes on to see how that
/// ends. One at a time.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Closed last.
    _child: Running,
    before: Vec<(Signal, SigAction)>,
}

impl Forward {
    /// Starts a command so that no signal comes between its start and this: a request to end reaches
    /// it, and those of the terminal, which are the command's business as with time(1), no longer end
    /// this process. Without the former, which Linux before 5.3 lacks, there is no `Forward`.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Option<Forward>)> {
        let mut held = SigSet::empty();
        for signal in ENDS.into_iter().chain(TERMINAL) {
            held.add(signal);
        }
        let mask = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(move || Ok(mask.thread_set_mask()?)) };
        let started = command.spawn().map(|child| {
            ignore_terminal_signals();
            let forward = Forward::to(child.id()).ok();
            (child, forward)
        });
        mask.thread_set_mask()?;
        started
    }

    /// The child with this process id, which has not been waited for. A signal that is ignored stays
    /// so, as nohup(1) wants it.
    fn to(pid: u32) -> io::Result<Forward> {
        let child = Running::child(pid)?;
        CHILD.store(child.as_raw_fd(), Ordering::Release);
        let handler = SigHandler::Handler(forward);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        let mut before = Vec::new();
        for signal in ENDS {
            // SAFETY: the handler reads an atomic and makes one system call, without touching errno.
            let old = unsafe { sigaction(signal, &action) }?;
            before.push((signal, old));
            if matches!(old.handler(), SigHandler::SigIgn) {
                restore(signal, &old);
            }
        }
        Ok(Forward {
            _child: child,
            before,
        })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        for (signal, old) in &self.before {
            restore(*signal, old);
        }
        CHILD.store(-1, Ordering::Release);
    }
}

fn restore(signal: Signal, old: &SigAction) {
    // SAFETY: the action was in force before.
    let _ = unsafe { sigaction(signal, old) };
}

fn ignore_terminal_signals() {
    for kind in TERMINAL {
        // SAFETY: SIG_IGN runs no code.
        let _ = unsafe { signal(kind, SigHandler::SigIgn) };
    }
}

extern "C" fn forward(signal: c_int) {
    let child = CHILD.load(Ordering::Acquire);
    let signal = rustix::process::Signal::from_named_raw(signal);
    if let (0.., Some(signal)) = (child, signal) {
        // SAFETY: a descriptor is stored for as long as it is open and this handler in place.
        let child = unsafe { BorrowedFd::borrow_raw(child) };
        // It may have ended already.
        let _ = pidfd_send_signal(child, signal);
    }
}
