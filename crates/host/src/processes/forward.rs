//! Passes signals that this process receives on to a child.

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

use super::id::Pid;
use super::running::Running;

/// The child's pidfd; -1 for none.
static CHILD: AtomicI32 = AtomicI32::new(-1);

/// Signals that ask to end.
const ENDS: [Signal; 2] = [Signal::SIGHUP, Signal::SIGTERM];
/// Signals that the terminal sends to all foreground processes.
const TERMINAL: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// While this value lives, a signal that asks to end is sent to the child, and this process waits
/// for the child's end. Only one may live at a time.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Dropped last, so that the descriptor stays open until the handlers are gone.
    _child: Running,
    before: Vec<(Signal, SigAction)>,
}

impl Forward {
    /// Starts a command, with signals blocked until the forwarding works. Signals that ask to end
    /// reach the command. Signals of the terminal are left to the command, as with time(1), and no
    /// longer end this process. Linux before 5.3 cannot forward; then there is no `Forward`.
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
            let forward = Forward::to(Pid::of_child(&child)).ok();
            (child, forward)
        });
        mask.thread_set_mask()?;
        started
    }

    /// Forwards to the child with this process id, which has not been waited for. A signal that is
    /// ignored stays ignored, as nohup(1) needs it.
    fn to(pid: Pid) -> io::Result<Forward> {
        let child = Running::new(pid)?;
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
    // SAFETY: this action was in force before.
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
        // SAFETY: the descriptor is stored only while it is open and this handler is installed.
        let child = unsafe { BorrowedFd::borrow_raw(child) };
        // The child may have ended already.
        let _ = pidfd_send_signal(child, signal);
    }
}
