//! Priority over other work of the machine.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

use super::id::Tid;

/// While this value lives, the thread that made it, and those that this thread starts, get far more of a processor than
/// others, if that is permitted. Where a thousand threads of a process want a processor, who lists its mappings would
/// wait for seconds at each step.
#[derive(Debug)]
pub struct Urgent {
    before: i32,
}

impl Urgent {
    /// Begins.
    pub fn begin() -> Urgent {
        let before = getpriority_process(None).unwrap_or(0);
        let _ = setpriority_process(None, MOST_URGENT);
        Urgent { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// The lowest nice value (setpriority(2)).
const MOST_URGENT: i32 = -20;

/// Gives a thread, and those that it starts from now on, priority over all threads that are not realtime, if that is
/// permitted. This is for work that ends soon, or that takes little: no work is more urgent while a process is stopped.
/// `None` is the calling thread.
pub fn before_others(thread: Option<Tid>) {
    let process = thread.and_then(|thread| rustix::process::Pid::from_raw(thread.as_raw()));
    if realtime(thread).is_err() {
        let _ = setpriority_process(process, MOST_URGENT);
    }
}

/// SCHED_FIFO of the lowest priority. (musl has no sched_setscheduler.)
fn realtime(thread: Option<Tid>) -> io::Result<()> {
    /// struct sched_param of the kernel (include/uapi/linux/sched/types.h).
    #[repr(C)]
    struct Priority(libc::c_int);
    let lowest = Priority(1);
    // SAFETY: the kernel reads one struct sched_param from a live local.
    let set = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread.map_or(0, Tid::as_raw),
            libc::SCHED_FIFO,
            &raw const lowest,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
