//! What a process needs to have its parts moved when it executes a program.

use std::fs;
use std::io;

use rustix::process::{Signal, kill_process};

use super::Pid;

/// include/uapi/linux/prctl.h; Linux 3.18.
const PR_SET_MM: libc::c_int = 35;
const PR_SET_MM_MAP_SIZE: libc::c_ulong = 15;
/// The size of struct prctl_mm_map, ever since.
const MAP_SIZE: libc::c_uint = 104;
/// Documentation/admin-guide/LSM/Yama.rst.
const PR_SET_PTRACER: libc::c_int = 0x5961_6d61;

/// Whether the kernel lets a process say where its parts lie (CONFIG_CHECKPOINT_RESTORE, as all distributions have it).
pub fn may_tell_parts() -> io::Result<()> {
    let mut size: libc::c_uint = 0;
    // SAFETY: the kernel writes one unsigned int to a live local.
    let asked = unsafe {
        libc::prctl(
            PR_SET_MM,
            PR_SET_MM_MAP_SIZE,
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

/// Whether Yama lets the processes that this one starts trace it. Without Yama, its setting does not matter.
pub fn let_descendants_trace(permitted: bool) {
    let tracer = if permitted {
        rustix::process::getpid().as_raw_nonzero().get()
    } else {
        0
    };
    // SAFETY: the request takes numbers.
    unsafe { libc::prctl(PR_SET_PTRACER, libc::c_long::from(tracer), 0, 0, 0) };
}

/// Ends the process that traces this one, and waits until this one is traced no more. Returns false if nobody traces it, or if
/// the tracer is of another user.
pub fn end_tracer() -> bool {
    let tracer = || {
        let status = fs::read("/proc/self/status").ok()?;
        let status = String::from_utf8_lossy(&status);
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"))?;
        Pid::from_raw(line.trim().parse().ok()?)
    };
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
