//! Waiting for events while other threads have children that end.
//!
//! The end of a child sends SIGCHLD to the thread that created it. The program ignores that signal.
//! The kernel nevertheless queues it while that thread is traced, and it can end the call of a
//! thread that is not traced (kernel/signal.c, complete_signal()).

use std::io;
use std::time::Duration;

use crate::{Held, Prepare, done, events, held_text};

pub(crate) const KINDS: &[(&str, Prepare)] = &[("epoll_wait beside children", beside_children)];

/// The number of threads that create children.
const PARENTS: u32 = 6;

fn beside_children() -> io::Result<Held> {
    // SAFETY: the text is never written to.
    let text = unsafe { &held_text };
    // With more pages in its page table, a stop takes longer.
    std::hint::black_box(text.iter().step_by(4096).fold(0, |sum, byte| sum ^ byte));
    for parent in 0..PARENTS {
        std::thread::spawn(move || create_children(parent));
    }
    // SAFETY: the caller's descriptor and live event.
    events::epoll(|fd, event| unsafe { libc::epoll_wait(fd, event, 1, -1) })
}

/// Creates children that live for 1 to 5 ms, one after the other.
///
/// The call is made without fork(3). From glibc 2.41 on, fork(3) blocks all signals until it returns. A
/// blocked signal is never ignored (kernel/signal.c, sig_ignored()), so the end of a child during that
/// time would end calls of other threads without any tracer.
fn create_children(parent: u32) {
    // The other arguments: no stack, and no place for numbers of threads or for TLS.
    const NONE: usize = 0;
    for child in parent.. {
        let life = Duration::from_micros(u64::from(child * 997 % 4000) + 1000);
        // SAFETY: without CLONE_VM the child has memory of its own, and it takes no lock before it ends.
        let cloned =
            unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, NONE, NONE, NONE, NONE) };
        match done(cloned).unwrap() {
            0 => {
                std::thread::sleep(life);
                // SAFETY: no memory is involved.
                unsafe { libc::_exit(0) }
            }
            // SAFETY: no memory is involved.
            pid => unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) },
        };
    }
}
