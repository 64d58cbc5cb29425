//! What a process needs to have its parts moved when it executes a program.

use std::fs;
use std::io;

use rustix::process::{Signal, kill_process};

use super::watchdog::state;
use super::{Pid, ProcessStatus, process_name};

/// The size of struct prctl_mm_map, ever since.
const MAP_SIZE: libc::c_uint = 104;

/// Whether the kernel lets a process say where its parts lie (CONFIG_CHECKPOINT_RESTORE, as all distributions have it).
pub fn may_tell_parts() -> io::Result<()> {
    let mut size: libc::c_uint = 0;
    // SAFETY: the kernel writes one unsigned int to a live local.
    let asked = unsafe {
        libc::prctl(
            libc::PR_SET_MM,
            libc::PR_SET_MM_MAP_SIZE as libc::c_ulong,
            &raw mut size,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    match (asked, size) {
        (0, MAP_SIZE) => Ok(()),
        (0, _) => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether processes whose parents end become children of this one: then it would find a child that it did not start.
pub fn adopts_children() -> bool {
    let is_first = rustix::process::getpid().is_init();
    is_first || rustix::process::child_subreaper().is_ok_and(|set| set.is_some())
}

/// Whether the first process of the PID namespace waits for children that it did not start, as far as its last children tell.
/// In a container it may be any program, and what nobody waits for stays as a zombie.
pub fn orphans_are_reaped() -> bool {
    /// So many zombies of this program in a row are no accident. A first process that looks once a second leaves a few.
    const TOO_MANY: usize = 64;
    // Without CONFIG_PROC_CHILDREN nothing tells.
    let children = fs::read_to_string("/proc/1/task/1/children").unwrap_or_default();
    let own = process_name(Pid::own());
    let is_left = |pid: Pid| {
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        state(&stat) == Some(b'Z') && process_name(pid) == own
    };
    let last = children.split_whitespace().rev().take(TOO_MANY);
    let last = last.map_while(|pid| Pid::from_raw(pid.parse().ok()?));
    last.take_while(|pid| is_left(*pid)).count() < TOO_MANY
}

/// Whether /proc is that of the PID namespace of this process, so that a number means the same there.
pub fn proc_is_own() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}

/// Whether a filter of system calls (seccomp) is set for this process.
pub fn is_filtered() -> bool {
    let status = ProcessStatus::own().ok();
    status.is_some_and(|status| status.field("Seccomp").is_some_and(|mode| mode != "0"))
}

/// Whether Yama lets the processes that this one starts trace it. Without Yama, its setting does not matter.
pub fn let_descendants_trace(permitted: bool) {
    let tracer = if permitted {
        rustix::process::getpid().as_raw_nonzero().get()
    } else {
        0
    };
    // SAFETY: the request takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_long::from(tracer), 0, 0, 0) };
}

/// Ends the process that traces this one, and waits until this one is traced no more. Returns false if nobody traces it, or if
/// the tracer is of another user.
pub fn end_tracer() -> bool {
    let tracer = || ProcessStatus::own().ok()?.first::<Pid>("TracerPid");
    let Some(found) = tracer() else {
        return false;
    };
    if kill_process(found.into(), Signal::KILL).is_err() {
        return false;
    }
    while tracer() == Some(found) {
        std::thread::yield_now();
    }
    true
}
