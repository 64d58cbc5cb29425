//! Waiting for signals, or for nothing until a signal comes.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Held, Prepare, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    ("sigtimedwait", || {
        waiting(|set| {
            let limit = libc::timespec {
                tv_sec: 36_000,
                tv_nsec: 0,
            };
            // SAFETY: a live set and time.
            unsafe { libc::sigtimedwait(set, null_mut(), &raw const limit) }
        })
    }),
    // SAFETY: a live set.
    ("sigwaitinfo", || {
        // SAFETY: every argument is live and of the size given.
        waiting(|set| unsafe { libc::sigwaitinfo(set, null_mut()) })
    }),
    ("sigsuspend", || {
        handle();
        block();
        // SAFETY: a live set, which is empty.
        let call = || result(unsafe { libc::sigsuspend(&empty()) }.into());
        Ok(Held::new(-i64::from(libc::EINTR), call, signal_to_me()))
    }),
    // SAFETY: no memory is involved.
    ("pause", || until_handled(|| unsafe { libc::pause() })),
    ("nanosleep", || {
        // SAFETY: a live time.
        until_handled(|| unsafe { libc::nanosleep(&LONG, null_mut()) })
    }),
    ("clock_nanosleep", || {
        // SAFETY: a live time.
        until_handled(|| unsafe { sleep_of(libc::CLOCK_MONOTONIC, 0, &LONG) })
    }),
    ("clock_nanosleep-absolute", || {
        until_handled(|| {
            // SAFETY: a live time.
            unsafe {
                let mut until: libc::timespec = zeroed();
                libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
                until.tv_sec += LONG.tv_sec;
                sleep_of(libc::CLOCK_REALTIME, libc::TIMER_ABSTIME, &until)
            }
        })
    }),
];

/// Ten hours.
const LONG: libc::timespec = libc::timespec {
    tv_sec: 36_000,
    tv_nsec: 0,
};

/// clock_nanosleep(2), with an error in errno as other calls have it.
///
/// # Safety
///
/// `time` must be live.
unsafe fn sleep_of(clock: libc::clockid_t, flags: i32, time: *const libc::timespec) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        libc::syscall(
            libc::SYS_clock_nanosleep,
            clock,
            flags,
            time,
            null_mut::<u8>(),
        ) as i32
    }
}

/// A call that only a signal ends. It counts as ended if the handler has run: an EINTR before is wrong.
fn until_handled(wait: fn() -> i32) -> io::Result<Held> {
    handle();
    let call = move || {
        let returned = result(wait().into());
        match handled() {
            0 => 0,
            _ => returned,
        }
    };
    Ok(Held::new(-i64::from(libc::EINTR), call, signal_to_me()))
}

thread_local! {
    /// How many signals this thread has handled.
    static HANDLED: AtomicU64 = const { AtomicU64::new(0) };
}

fn handled() -> u64 {
    HANDLED.with(|count| count.load(Ordering::Relaxed))
}

extern "C" fn count(_signal: i32) {
    HANDLED.with(|count| count.fetch_add(1, Ordering::Relaxed));
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset() fills it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn ours() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: a live set.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    set
}

fn block() {
    // SAFETY: a live set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &ours(), null_mut()) };
}

fn handle() {
    // SAFETY: the handler only counts.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = count as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, null_mut());
    }
}

/// The action that sends the signal to the thread that is here now.
fn signal_to_me() -> impl FnOnce() + Send + 'static {
    // SAFETY: no memory is involved, and the thread is one of this process.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    move || unsafe {
        // SAFETY: as above.
        libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1);
    }
}

fn waiting(call: fn(*const libc::sigset_t) -> i32) -> io::Result<Held> {
    block();
    Ok(Held::new(
        libc::SIGUSR1.into(),
        move || result(call(&ours()).into()),
        signal_to_me(),
    ))
}

/// `held mask`: waits for events and signals without a race. SIGUSR1 is unblocked only while
/// epoll_pwait() waits, so each signal must end the wait. Prints the number of handled signals
/// whenever a wait ends, and ends with the process that started it.
pub(crate) fn mask() {
    handle();
    block();
    // SAFETY: the call uses no memory. The end of the parent ends this process.
    let epoll = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::epoll_create1(0)
    };
    println!("ready");
    loop {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: a live event, time and mask.
        let returned = unsafe {
            let mask = empty();
            libc::epoll_pwait(epoll, &raw mut event, 1, -1, &raw const mask)
        };
        if result(returned.into()) != -i64::from(libc::EINTR) {
            return println!("wrong: epoll_pwait returned {returned}");
        }
        println!("{}", handled());
    }
}
