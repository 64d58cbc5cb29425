//! A process that lets this one go on when somebody stops it.
//!
//! A tracer that is stopped by SIGSTOP in the middle of its work would leave the process that it traces stopped for as
//! long, and so would one whose control group is frozen. No process can block that. So the watchdog lives in the control
//! group of the traced process: whoever freezes that group wants the traced process to stand still.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::id;
use super::urgent::before_others;
use crate::machine::unified_group;

/// How long this process stays stopped at most, in milliseconds.
const EVERY: c_int = 10;

/// The descriptors of the watchdog: its end of the pipe, /proc/PID/stat of whom it watches, and the files of [`Refuge`], if
/// there is one.
const END: RawFd = 0;
const STAT: RawFd = 1;
const EVENTS: RawFd = 2;
const PROCS: RawFd = 3;

/// Where a process goes on whose own control group is frozen (Documentation/admin-guide/cgroup-v2.rst).
#[derive(Debug)]
struct Refuge {
    /// cgroup.events of its own group.
    events: File,
    /// cgroup.procs of the group to which it is moved meanwhile.
    procs: File,
    /// cgroup.procs of its own group.
    home: File,
    /// Its own group.
    own: PathBuf,
}

impl Refuge {
    /// The group of `traced`; `None` where that is the same group, or this process may move nobody there. Version 1 moves
    /// nobody out of a frozen group.
    fn beside(traced: id::Pid) -> Option<Refuge> {
        let (own, other) = (unified_group(id::Pid::own())?, unified_group(traced)?);
        let open = |at: PathBuf| OpenOptions::new().write(true).open(at).ok();
        (own != other).then_some(())?;
        Some(Refuge {
            events: File::open(own.join("cgroup.events")).ok()?,
            procs: open(other.join("cgroup.procs"))?,
            home: open(own.join("cgroup.procs"))?,
            own,
        })
    }
}

/// Watches over this process while it exists.
#[derive(Debug)]
pub struct Watchdog {
    process: Pid,
    refuge: Option<Refuge>,
    /// The watchdog ends when nobody holds it any more.
    _other_end: OwnedFd,
}

impl Watchdog {
    /// From now on, this process goes on within some milliseconds after it was stopped, or frozen with its control group
    /// while `traced` is in another one.
    pub fn begin(traced: id::Pid) -> io::Result<Watchdog> {
        let mut refuge = Refuge::beside(traced);
        let stat = File::open("/proc/self/stat")?;
        let (end, other_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let watched = rustix::process::getpid();
        // SAFETY: other threads may hold locks, so the child calls only functions that signal-safety(7) lists, and
        // never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let raw = |file: &File| file.as_raw_fd();
                let [events, procs] = refuge
                    .as_ref()
                    .map_or([-1, -1], |refuge| [raw(&refuge.events), raw(&refuge.procs)]);
                let fds = [end.as_raw_fd(), stat.as_raw_fd(), events, procs];
                // SAFETY: this is the child, which has one thread and these descriptors.
                unsafe { watch(watched.as_raw_nonzero().get(), fds) }
            }
            child => {
                let process = Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?;
                // On a busy machine, a new process can wait for minutes for its turn. This one needs some microseconds
                // of a processor every [`EVERY`].
                before_others(id::Pid::from_raw(child).map(id::Pid::first_thread));
                if let Some(refuge) = &mut refuge {
                    // Where that is not permitted, the watchdog stays here, and helps against SIGSTOP alone.
                    let _ = refuge.procs.write_all(child.to_string().as_bytes());
                }
                Ok(Watchdog {
                    process,
                    refuge,
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
        // Whoever froze its group meant it, and now nobody else waits.
        if let Some(refuge) = &mut self.refuge
            && unified_group(id::Pid::own()).is_some_and(|group| group != refuge.own)
        {
            let _ = refuge.home.write_all(b"0");
        }
    }
}

/// Continues `watched` whenever it is stopped, until the pipe ends.
///
/// # Safety
/// The descriptors are open and nobody else's. This makes system calls only.
unsafe fn watch(watched: libc::pid_t, files: [RawFd; 4]) -> ! {
    // A signal to the group of this process is not for the watchdog, and nobody waits for it to close a descriptor.
    // SAFETY: none of these calls takes memory. The descriptors are no longer needed under their old numbers.
    unsafe {
        libc::setsid();
        let high = files.map(|fd| libc::fcntl(fd, libc::F_DUPFD, 10));
        let numbers = [END, STAT, EVENTS, PROCS];
        for (fd, number) in high.into_iter().zip(numbers) {
            libc::close(number);
            if libc::dup2(fd, number) < 0 && number <= STAT {
                libc::_exit(0);
            }
        }
        close_from(PROCS + 1);
    }
    let (number, digits) = decimal(watched);
    let number = number.get(digits..).unwrap_or_default();
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
        if is_stopped(read(STAT, &mut bytes)) {
            // SAFETY: this call takes no memory.
            unsafe { libc::kill(watched, libc::SIGCONT) };
        }
        if is_frozen(read(EVENTS, &mut bytes)) {
            // SAFETY: a live local of this length.
            unsafe { libc::write(PROCS, number.as_ptr().cast(), number.len()) };
        }
    }
}

/// Closes the descriptors from `first` on.
///
/// # Safety
/// This process uses none of them any more.
pub(super) unsafe fn close_from(first: RawFd) {
    /// The most descriptors that are closed one by one, on Linux before 5.9.
    const MOST: RawFd = 4096;
    // SAFETY: as promised by the caller. The calls take numbers.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            (first..MOST).for_each(|fd| {
                libc::close(fd);
            });
        }
    }
}

/// A file from its beginning, as far as it fits; empty if it cannot be read.
fn read(fd: RawFd, bytes: &mut [u8; 512]) -> &[u8] {
    // SAFETY: a live local of this length.
    let read = unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let read = usize::try_from(read).ok();
    read.and_then(|read| bytes.get(..read)).unwrap_or_default()
}

/// A number as digits at the end of an array, and where they begin.
fn decimal(number: libc::pid_t) -> ([u8; 10], usize) {
    let (mut digits, mut rest, mut at) = ([b'0'; 10], number.unsigned_abs(), 10);
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        at = place;
        if rest == 0 {
            break;
        }
    }
    (digits, at)
}

/// Whether cgroup.events tells of a group that is frozen.
fn is_frozen(events: &[u8]) -> bool {
    events
        .split(|byte| *byte == b'\n')
        .any(|line| line == b"frozen 1")
}

/// Whether /proc/PID/stat tells of a process that a signal has stopped.
fn is_stopped(stat: &[u8]) -> bool {
    state(stat) == Some(b'T')
}

/// The state that /proc/PID/stat tells. The name in it may hold parentheses.
pub(super) fn state(stat: &[u8]) -> Option<u8> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_ends.saturating_add(2)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::in_child;

    #[test]
    fn who_is_watched_over_does_not_stay_stopped() {
        let stopped = in_child(|| {
            let watchdog = Watchdog::begin(id::Pid::own()).map_err(|error| error.to_string())?;
            for _ in 0..3 {
                kill_process(rustix::process::getpid(), Signal::STOP)
                    .map_err(|error| error.to_string())?;
            }
            drop(watchdog);
            Ok::<(), String>(())
        });
        assert_eq!(stopped.unwrap(), Ok(()));
    }

    /// Where twenty threads share two processors, one that has just begun may wait for half a minute.
    #[test]
    fn it_does_not_wait_for_a_processor_where_a_tracer_does_not() {
        // Its policy (proc_pid_stat(5), field 41), or its nice value where realtime is not permitted (field 19).
        let scheduling = |process: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            let behind_name = stat.rsplit(')').next().unwrap();
            let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
            [fields[38], fields[16]].map(str::to_owned)
        };
        let tracer = std::thread::spawn(move || {
            before_others(None);
            scheduling("thread-self")
        });
        let watchdog = Watchdog::begin(id::Pid::own()).unwrap();
        let process = watchdog.process.as_raw_nonzero().to_string();
        assert_eq!(scheduling(&process), tracer.join().unwrap());
    }

    #[test]
    fn many_at_once_end_in_any_order() {
        let begin = |_| Watchdog::begin(id::Pid::own()).unwrap();
        let mut all: Vec<Watchdog> = (0..8).map(begin).collect();
        all.swap(0, 7);
        std::thread::scope(|scope| {
            for watchdog in all {
                scope.spawn(move || drop(watchdog));
            }
        });
        // Each end is inherited by those that begin later.
        let own = id::Pid::own();
        let (one, two) = (Watchdog::begin(own).unwrap(), Watchdog::begin(own).unwrap());
        drop(one);
        drop(two);
    }

    #[test]
    fn who_is_frozen_goes_on_beside_whom_it_traces_and_is_frozen_again() {
        use std::fs;
        use std::process::Command;
        let Some(root) = unified_group(id::Pid::own()) else {
            return println!("skipped: no control groups of version 2");
        };
        let group = |name: &str| root.join(format!("hugetext-{}-{name}", std::process::id()));
        let (own, other) = (group("tracer"), group("traced"));
        if fs::create_dir(&own).is_err() || fs::create_dir(&other).is_err() {
            return println!("skipped: no control group can be made");
        }
        let enter = r#"echo $$ > "$0/cgroup.procs" && exec sleep 1000"#;
        let mut traced = Command::new("sh")
            .args(["-c", enter])
            .arg(&other)
            .spawn()
            .unwrap();
        let pid = id::Pid::of_child(&traced);
        while unified_group(pid) != Some(other.clone()) {
            std::thread::yield_now();
        }
        // Freezes the group when the watchdog has begun, and thaws it when the tracer has left and returned, or never did.
        let script = r#"
            until grep -q 3 "$0/cgroup.max.depth"; do :; done
            echo 1 > "$0/cgroup.freeze"
            for try in $(seq 300); do grep -q . "$0/cgroup.procs" || { echo 5 > "$0/cgroup.max.descendants"; break; }; sleep 0.1; done
            until grep -q . "$0/cgroup.procs"; do :; done
            echo 0 > "$0/cgroup.freeze"
            echo 7 > "$0/cgroup.max.descendants""#;
        let mut freezer = Command::new("sh");
        freezer.args(["-c", script]).arg(&own);
        let mut freezer = freezer.spawn().unwrap();
        let ended = in_child(|| {
            let said = |error: io::Error| error.to_string();
            fs::write(own.join("cgroup.procs"), "0").map_err(said)?;
            let watchdog = Watchdog::begin(pid).map_err(said)?;
            fs::write(own.join("cgroup.max.depth"), "3").map_err(said)?;
            // It stands still, is moved, and goes on.
            let told = |word: &[u8]| {
                fs::read(own.join("cgroup.max.descendants")).is_ok_and(|most| most == word)
            };
            let is_home = || unified_group(id::Pid::own()) == Some(own.clone());
            while is_home() && !told(b"7\n") {}
            let was_moved = !is_home();
            while was_moved && !told(b"5\n") {}
            drop(watchdog);
            Ok::<_, String>((was_moved, is_home()))
        });
        freezer.wait().unwrap();
        traced.kill().unwrap();
        traced.wait().unwrap();
        let _ = (fs::remove_dir(&own), fs::remove_dir(&other));
        assert_eq!(ended.unwrap(), Ok((true, true)), "moved, and home again");
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
