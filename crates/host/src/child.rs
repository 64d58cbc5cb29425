//! Child processes that do not outlive their parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the child of `command` killed when the thread that starts it ends, however that comes about
/// (PR_SET_PDEATHSIG of prctl(2)).
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the request: nobody would be told any more.
        match rustix::process::getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `ask` makes two system
    // calls and allocates nothing.
    unsafe { command.pre_exec(ask) }
}
