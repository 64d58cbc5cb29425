//! A program for tests of promotion. In every thread, it sleeps, polls, waits, takes signals,
//! forks and computes. It checks every answer of the kernel and of its own text, and prints any
//! error. It runs until its standard input ends.
//!
//! `busy THREADS [seccomp|sealed|abandoned]` prints `ready`. For every line of input, it prints `ok
//! ROUNDS` once all threads have done a full round since. At the end it prints `done ROUNDS`. After
//! an error it prints `wrong: WHAT` and ends with status 1. The text that it executes in every
//! round has [`LEN`] bytes.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rounds;

use std::ffi::{c_int, c_long, c_void};
use std::io::BufRead;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rounds::all_go_on;

/// Functions in the generated text, and bytes from one to the next.
const FUNCTIONS: usize = 1 << 16;
const STRIDE: usize = 128;
/// Bytes of generated text.
const LEN: usize = FUNCTIONS * STRIDE;

// Function k returns the sum of its argument and k.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.busy, \"ax\", @progbits",
    ".balign 4096",
    ".globl busy_functions",
    "busy_functions:",
    ".set busy_k, 0",
    ".rept 65536",
    ".balign 128",
    "lea rax, [rdi + busy_k]",
    "ret",
    ".set busy_k, busy_k + 1",
    ".endr",
    ".balign 128",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.busy, \"ax\", @progbits",
    ".balign 4096",
    ".globl busy_functions",
    "busy_functions:",
    ".set busy_k, 0",
    ".rept 65536",
    ".balign 128",
    "movz x1, #busy_k",
    "add x0, x0, x1",
    "ret",
    ".set busy_k, busy_k + 1",
    ".endr",
    ".balign 128",
    ".popsection",
);

unsafe extern "C" {
    static busy_functions: u8;
}

static STOP: AtomicBool = AtomicBool::new(false);
/// Whether the stopping process may be killed before it restarts interrupted calls.
static ABANDONED: AtomicBool = AtomicBool::new(false);
static WRONG: AtomicBool = AtomicBool::new(false);
/// Signals sent and taken.
static SENT: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn check(right: bool, what: &str) {
    if !right {
        let error = std::io::Error::last_os_error();
        println!("wrong: {what} ({error})");
        WRONG.store(true, Ordering::SeqCst);
        std::process::exit(1);
    }
}

fn call(function: usize, argument: u64) -> u64 {
    // SAFETY: the generated functions lie STRIDE bytes apart and have this signature.
    unsafe {
        let address = (&raw const busy_functions).add(function * STRIDE);
        let function: extern "C" fn(u64) -> u64 = std::mem::transmute(address);
        function(argument)
    }
}

/// Calls one function in every page of the text, at an offset that changes with the round.
fn compute(round: u64) {
    const STEP: usize = 4096 / STRIDE;
    let mut sum = 0u64;
    let mut expected = 0u64;
    for page in 0..FUNCTIONS / STEP {
        let function = page * STEP + (round as usize + page) % STEP;
        sum = call(function, sum);
        expected += function as u64;
    }
    check(sum == expected, "sum over the text");
}

fn spin() {
    // The loop is long enough that a round takes a moment, which passes in user mode.
    (0..200).for_each(compute);
}

const NAP: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
const NAP_MS: u128 = 20;

/// Waits until the time is up. The wait must last that long and must never be interrupted.
fn waits(what: &str, mut wait: impl FnMut() -> c_int) {
    let start = Instant::now();
    check(wait() == 0, what);
    check(start.elapsed().as_millis() >= NAP_MS, what);
}

fn sleep() {
    // SAFETY: both pointers are valid or null.
    waits("nanosleep", || unsafe { libc::nanosleep(&NAP, null_mut()) });
    // SAFETY: as above.
    waits("clock_nanosleep", || unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &NAP, null_mut())
    });
}

fn poll() {
    // SAFETY: no descriptors.
    waits("poll", || unsafe {
        libc::poll(null_mut(), 0, NAP_MS as c_int)
    });
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: (NAP_MS * 1000) as _,
    };
    let start = Instant::now();
    // SAFETY: no descriptors; the time is a live local.
    let ready = unsafe { libc::select(0, null_mut(), null_mut(), null_mut(), &mut time) };
    check(ready == 0, "select");
    check(start.elapsed().as_millis() >= NAP_MS, "select time");
}

fn epoll() {
    // SAFETY: plain system calls on a descriptor that is closed at the end.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        check(epoll >= 0, "epoll_create1");
        let mut event: libc::epoll_event = zeroed();
        // If only the kernel could restart the call, the call may fail with EINTR (signal(7)).
        if cfg!(target_arch = "x86_64") && !ABANDONED.load(Ordering::Relaxed) {
            waits("epoll_wait", || {
                libc::epoll_wait(epoll, &raw mut event, 1, NAP_MS as c_int)
            });
        } else {
            let ready = libc::epoll_wait(epoll, &raw mut event, 1, NAP_MS as c_int);
            check(ready <= 0, "epoll_wait");
        }
        libc::close(epoll);
    }
}

/// Two threads pass a number back and forth, with a time limit that a lost wake-up would exceed.
fn futex(word: &AtomicU32, own: u32) {
    let limit = libc::timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    for _ in 0..50 {
        while word.load(Ordering::Acquire) % 2 != own {
            if STOP.load(Ordering::Relaxed) {
                return;
            }
            let seen = word.load(Ordering::Acquire);
            if seen % 2 == own {
                break;
            }
            // SAFETY: the word outlives the call.
            let waited = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    seen,
                    &raw const limit,
                )
            };
            let error = std::io::Error::last_os_error().raw_os_error();
            check(waited == 0 || error == Some(libc::EAGAIN), "futex");
        }
        word.fetch_add(1, Ordering::AcqRel);
        wake(word);
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

extern "C" fn take(_signal: c_int) {
    TAKEN.fetch_add(1, Ordering::SeqCst);
    // A handler executes text too.
    check(call(4711, 1) == 4712, "text in a handler");
}

/// Queues real-time signals for this thread. They are unblocked only during sigsuspend or a sleep.
fn signals() {
    let signal = libc::SIGRTMIN() + 3;
    // SAFETY: the masks are live locals; the handler only adds to a counter.
    unsafe {
        let mut old: libc::sigset_t = zeroed();
        let mut blocked: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut old);
        let before = TAKEN.load(Ordering::SeqCst);
        for _ in 0..20 {
            SENT.fetch_add(1, Ordering::SeqCst);
            check(
                libc::pthread_kill(libc::pthread_self(), signal) == 0,
                "pthread_kill",
            );
            let mut open = old;
            libc::sigdelset(&raw mut open, signal);
            check(libc::sigsuspend(&raw const open) == -1, "sigsuspend");
            let error = std::io::Error::last_os_error();
            check(error.raw_os_error() == Some(libc::EINTR), "sigsuspend");
        }
        check(
            TAKEN.load(Ordering::SeqCst) >= before + 20,
            "a signal was lost",
        );
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, null_mut());
    }
}

/// Receives a stream of signals while the thread sleeps. After each signal the thread sleeps for
/// the remaining time.
fn signalled_sleep(handle: &AtomicU64) {
    // SAFETY: plain calls on live locals.
    unsafe { handle.store(libc::pthread_self() as u64, Ordering::Release) };
    let start = Instant::now();
    let mut left = NAP;
    loop {
        let now = left;
        // SAFETY: both are live locals.
        match unsafe { libc::nanosleep(&now, &mut left) } {
            0 => break,
            _ => {
                let error = std::io::Error::last_os_error();
                check(
                    error.raw_os_error() == Some(libc::EINTR),
                    "nanosleep under signals",
                );
            }
        }
    }
    handle.store(0, Ordering::Release);
    check(
        start.elapsed().as_millis() + 5 >= NAP_MS,
        "nanosleep under signals: time",
    );
}

fn send_to(handle: &AtomicU64) {
    let thread = handle.load(Ordering::Acquire);
    if thread != 0 {
        SENT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the thread lives as long as the program.
        let sent = unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGRTMIN() + 3) };
        check(sent == 0, "pthread_kill to another");
    }
    thread::sleep(Duration::from_millis(1));
}

extern "C" fn nap_and_end(_argument: *mut c_void) -> c_int {
    // SAFETY: one call that uses only constant memory, followed by the end of the process.
    unsafe {
        libc::nanosleep(&NAP, null_mut());
        libc::_exit(7)
    }
}

/// Creates a child that sleeps and ends. The child is either a copy, or it shares the memory while
/// its parent waits in uninterruptible sleep, as with vfork.
fn forks(with_vfork: bool) {
    let mut stack = vec![0u64; 4096];
    let top = stack.as_mut_ptr_range().end.cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has its own stack. It only sleeps and ends.
    unsafe {
        let child = if with_vfork {
            libc::clone(nap_and_end, top, flags, null_mut())
        } else {
            libc::fork()
        };
        if child == 0 {
            nap_and_end(null_mut());
        }
        check(child > 0, "fork");
        let mut status = 0;
        check(libc::waitpid(child, &raw mut status, 0) == child, "waitpid");
        let ended = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
        check(ended, "a child's status");
    }
}

fn pipes() {
    // SAFETY: the buffers are live locals of the lengths given.
    unsafe {
        let mut ends = [0; 2];
        check(libc::pipe(ends.as_mut_ptr()) == 0, "pipe");
        let [reader, writer] = ends;
        for value in 0..100u8 {
            check(
                libc::write(writer, (&raw const value).cast(), 1) == 1,
                "write",
            );
            let mut got = 0u8;
            check(
                libc::read(reader, (&raw mut got).cast(), 1) == 1 && got == value,
                "read",
            );
        }
        libc::close(reader);
        libc::close(writer);
    }
}

/// A filter that permits every call.
fn filter() {
    /// SECCOMP_RET_ALLOW.
    const ALLOW: u32 = 0x7fff_0000;
    let mut allow = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut allow,
    };
    // SAFETY: the program has one instruction, and both live across the calls.
    unsafe {
        check(
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0,
            "no_new_privs",
        );
        let mode = libc::SECCOMP_MODE_FILTER;
        check(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) == 0,
            "seccomp",
        );
    }
}

/// Seals the generated text, or prints that the kernel cannot (mseal(2), Linux 6.10).
fn seal() {
    const MSEAL: c_long = 462;
    let start = (&raw const busy_functions).addr();
    // SAFETY: sealing changes no content, and nothing here unmaps text.
    let sealed = unsafe { libc::syscall(MSEAL, start, LEN, 0) == 0 };
    if !sealed {
        println!("unsealed");
        std::process::exit(0);
    }
}

fn main() {
    match std::env::args().nth(2).as_deref() {
        Some("seccomp") => filter(),
        Some("sealed") => seal(),
        Some("abandoned") => ABANDONED.store(true, Ordering::Relaxed),
        _ => {}
    }
    let threads: usize = std::env::args()
        .nth(1)
        .map_or(64, |n| n.parse().expect("a number"));
    // SAFETY: the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = take as *const () as usize;
        libc::sigaction(libc::SIGRTMIN() + 3, &raw const action, null_mut());
    }
    let rounds: &[AtomicU64] = (0..threads)
        .map(|_| AtomicU64::new(0))
        .collect::<Vec<_>>()
        .leak();
    let words: &[AtomicU32] = (0..threads)
        .map(|_| AtomicU32::new(0))
        .collect::<Vec<_>>()
        .leak();
    let handles: &[AtomicU64] = (0..threads)
        .map(|_| AtomicU64::new(0))
        .collect::<Vec<_>>()
        .leak();
    for index in 0..threads {
        thread::spawn(move || {
            while !STOP.load(Ordering::Relaxed) {
                // Two neighbours of a group of twelve each hand over a futex, send and take
                // signals.
                match index % 12 {
                    0 => spin(),
                    1 => sleep(),
                    2 => poll(),
                    3 => epoll(),
                    kind @ (4 | 5) if index - kind + 5 < threads => {
                        futex(&words[index - kind + 4], kind as u32 - 4);
                    }
                    6 => signals(),
                    7 => signalled_sleep(&handles[index]),
                    8 => send_to(&handles[index - 1]),
                    9 => forks(true),
                    10 => forks(false),
                    _ => pipes(),
                }
                compute(rounds[index].fetch_add(1, Ordering::Relaxed));
            }
        });
    }
    println!("ready {LEN}");
    for line in std::io::stdin().lock().lines() {
        let _ = line;
        let total = all_go_on(rounds);
        check(total.is_some(), "a thread is stuck");
        let total = total.unwrap_or(0);
        println!("ok {total}");
    }
    STOP.store(true, Ordering::SeqCst);
    words.iter().for_each(wake);
    let deadline = Instant::now();
    while TAKEN.load(Ordering::SeqCst) < SENT.load(Ordering::SeqCst) {
        check(
            deadline.elapsed() < Duration::from_secs(10),
            "signals were lost",
        );
        thread::yield_now();
    }
    println!(
        "done {}",
        rounds
            .iter()
            .map(|round| round.load(Ordering::Relaxed))
            .sum::<u64>()
    );
}
