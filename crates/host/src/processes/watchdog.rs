//! A process that lets this one go on when somebody stops it.
//!
//! A tracer that is stopped by SIGSTOP in the middle of its work would leave the process that it traces stopped for as
//! long. No process can block SIGSTOP.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How long this process stays stopped at most, in milliseconds.
const EVERY: c_int = 10;

/// The descriptors of the watchdog: its end of the pipe, and /proc/PID/stat of whom it watches.
const END: RawFd = 0;
const STAT: RawFd = 1;

/// Watches over this process while it exists.
#[derive(Debug)]
pub struct Watchdog {
    process: Pid,
    /// The watchdog ends when nobody holds it any more.
    _other_end: OwnedFd,
}

impl Watchdog {
    /// From now on, this process goes on within some milliseconds after it was stopped.
    pub fn begin() -> io::Result<Watchdog> {
        let stat = File::open("/proc/self/stat")?;
        let (end, other_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let watched = rustix::process::getpid();
        // SAFETY: other threads may hold locks, so the child calls only functions that signal-safety(7) lists, and
        // never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let fds = [end.as_raw_fd(), stat.as_raw_fd()];
                // SAFETY: this is the child, which has one thread and these descriptors.
                unsafe { watch(watched.as_raw_nonzero().get(), fds) }
            }
            child => {
                let process = Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?;
                Ok(Watchdog {
                    process,
                    _other_end: other_end,
                })
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The pipe is for the case that this process ends, and other children that were forked at the same time may
        // hold its end too.
        let _ = kill_process(self.process, Signal::KILL);
        let _ = retry_on_intr(|| waitpid(Some(self.process), WaitOptions::empty()));
    }
}

/// Continues `watched` whenever it is stopped, until the pipe ends.
///
/// # Safety
/// The descriptors are open and nobody else's. This makes system calls only.
unsafe fn watch(watched: libc::pid_t, [end, stat]: [RawFd; 2]) -> ! {
    /// The most descriptors that are closed one by one, on Linux before 5.9.
    const MOST: c_int = 4096;
    // A signal to the group of this process is not for the watchdog, and nobody waits for it to close a descriptor.
    // SAFETY: none of these calls takes memory. The two descriptors are no longer needed under their old numbers.
    unsafe {
        libc::setsid();
        let (end, stat) = (
            libc::fcntl(end, libc::F_DUPFD, 10),
            libc::fcntl(stat, libc::F_DUPFD, 10),
        );
        if libc::dup2(end, END) < 0 || libc::dup2(stat, STAT) < 0 {
            libc::_exit(0);
        }
        if libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0) != 0 {
            (2..MOST).for_each(|fd| {
                libc::close(fd);
            });
        }
    }
    loop {
        let mut waiting = libc::pollfd {
            fd: END,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live local.
        let ready = unsafe { libc::poll(&raw mut waiting, 1, EVERY) };
        if ready > 0 {
            // SAFETY: this ends the child without handlers of exit(3).
            unsafe { libc::_exit(0) };
        }
        let mut bytes = [0_u8; 512];
        // SAFETY: a live local of this length.
        let read = unsafe { libc::pread(STAT, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let told = usize::try_from(read)
            .ok()
            .and_then(|read| bytes.get(..read));
        if told.is_some_and(is_stopped) {
            // SAFETY: this call takes no memory.
            unsafe { libc::kill(watched, libc::SIGCONT) };
        }
    }
}

/// Whether /proc/PID/stat tells of a process that a signal has stopped. The name in it may hold parentheses.
fn is_stopped(stat: &[u8]) -> bool {
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    let state = name_ends.and_then(|at| stat.get(at.saturating_add(2)));
    state == Some(&b'T')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::in_child;

    #[test]
    fn who_is_watched_over_does_not_stay_stopped() {
        let stopped = in_child(|| {
            let watchdog = Watchdog::begin().map_err(|error| error.to_string())?;
            for _ in 0..3 {
                kill_process(rustix::process::getpid(), Signal::STOP)
                    .map_err(|error| error.to_string())?;
            }
            drop(watchdog);
            Ok::<(), String>(())
        });
        assert_eq!(stopped.unwrap(), Ok(()));
    }

    #[test]
    fn many_at_once_end_in_any_order() {
        let begin = |_| Watchdog::begin().unwrap();
        let mut all: Vec<Watchdog> = (0..8).map(begin).collect();
        all.swap(0, 7);
        std::thread::scope(|scope| {
            for watchdog in all {
                scope.spawn(move || drop(watchdog));
            }
        });
        // Each end is inherited by those that begin later.
        let (one, two) = (Watchdog::begin().unwrap(), Watchdog::begin().unwrap());
        drop(one);
        drop(two);
    }

    #[test]
    fn a_name_is_no_state() {
        assert!(is_stopped(b"7 (a) T 1 2"));
        assert!(is_stopped(b"7 (a) S) T 1 2"));
        assert!(!is_stopped(b"7 (a) T) S 1 2"));
        assert!(!is_stopped(b"7 (a) t 1 2"), "traced");
        assert!(!is_stopped(b""));
    }
}
