//! Priority over other work of the machine.

use std::num::NonZeroU64;

use rustix::process::{getpriority_process, setpriority_process};

use crate::raw;

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

/// Gives this thread and its children priority, if that is permitted. They end soon, and no work
/// is more urgent while a process is stopped.
pub(crate) fn before_others() {
    if raw::run_before_others().is_err() {
        let _ = setpriority_process(None, MOST_URGENT);
    }
    if let Some(nanosecond) = NonZeroU64::new(1) {
        let _ = rustix::thread::set_current_timer_slack(Some(nanosecond));
    }
}
