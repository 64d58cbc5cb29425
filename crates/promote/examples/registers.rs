//! A program for tests of promotion. Its threads fill all registers with known values, compute or wait in a
//! call of the kernel, and compare every register, the floating-point settings and the blocked signals
//! afterwards. It runs until its standard input ends.
//!
//! `registers THREADS` prints `ready`. For every line of input, it prints `ok ROUNDS` once all threads have done
//! a full round since. At the end it prints `done`. A difference is printed as `wrong: WHAT` and ends the
//! program with status 1. Its threads, files and mappings stay the same all the time.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rounds;

use std::io::BufRead;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rounds::all_go_on;

// `hold(wanted, found, spins)` loads all registers from `wanted`, counts `spins` down to nothing if there are
// any and makes a system call otherwise, and stores all registers to `found`. The words are those of `Set`.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.registers, \"ax\", @progbits",
    ".balign 4096",
    ".globl registers_text",
    "registers_text:",
    ".skip 4194304, 0xcc",
    ".globl registers_hold",
    "registers_hold:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rsi",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "ldmxcsr [rdi + 384]",
    "mov rcx, rdx",
    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movdqu xmm\\i, [rdi + 128 + 16 * \\i]",
    ".endr",
    "mov rax, [rdi]",
    "mov rbx, [rdi + 8]",
    "mov rbp, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 32]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov r10, [rdi + 56]",
    "mov r12, [rdi + 64]",
    "mov r13, [rdi + 72]",
    "mov r14, [rdi + 80]",
    "mov r15, [rdi + 88]",
    "mov rdi, [rdi + 96]",
    "test rcx, rcx",
    "jz 3f",
    "2: sub rcx, 1",
    "jnz 2b",
    "jmp 4f",
    "3: syscall",
    "4: mov rcx, [rsp + 8]",
    "mov [rcx], rax",
    "mov [rcx + 8], rbx",
    "mov [rcx + 16], rbp",
    "mov [rcx + 24], rdx",
    "mov [rcx + 32], rsi",
    "mov [rcx + 40], r8",
    "mov [rcx + 48], r9",
    "mov [rcx + 56], r10",
    "mov [rcx + 64], r12",
    "mov [rcx + 72], r13",
    "mov [rcx + 80], r14",
    "mov [rcx + 88], r15",
    "mov [rcx + 96], rdi",
    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movdqu [rcx + 128 + 16 * \\i], xmm\\i",
    ".endr",
    "stmxcsr [rcx + 384]",
    "ldmxcsr [rsp]",
    "add rsp, 16",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.registers, \"ax\", @progbits",
    ".balign 4096",
    ".globl registers_text",
    "registers_text:",
    ".skip 4194304",
    ".globl registers_hold",
    "registers_hold:",
    "stp x29, x30, [sp, #-192]!",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mrs x9, fpcr",
    "stp x1, x9, [sp, #160]",
    "ldr x9, [x0, #384]",
    "msr fpcr, x9",
    "mov x30, x2",
    "add x9, x0, #128",
    "ldp q0, q1, [x9]",
    "ldp q2, q3, [x9, #32]",
    "ldp q4, q5, [x9, #64]",
    "ldp q6, q7, [x9, #96]",
    "ldp q8, q9, [x9, #128]",
    "ldp q10, q11, [x9, #160]",
    "ldp q12, q13, [x9, #192]",
    "ldp q14, q15, [x9, #224]",
    "ldp x8, x19, [x0]",
    "ldp x20, x2, [x0, #16]",
    "ldp x1, x4, [x0, #32]",
    "ldp x5, x3, [x0, #48]",
    "ldp x21, x22, [x0, #64]",
    "ldp x23, x24, [x0, #80]",
    "ldr x0, [x0, #96]",
    "cbz x30, 3f",
    "2: subs x30, x30, #1",
    "b.ne 2b",
    "b 4f",
    "3: svc #0",
    "4: ldr x9, [sp, #160]",
    "stp x8, x19, [x9]",
    "stp x20, x2, [x9, #16]",
    "stp x1, x4, [x9, #32]",
    "stp x5, x3, [x9, #48]",
    "stp x21, x22, [x9, #64]",
    "stp x23, x24, [x9, #80]",
    "str x0, [x9, #96]",
    "mrs x10, fpcr",
    "str x10, [x9, #384]",
    "add x9, x9, #128",
    "stp q0, q1, [x9]",
    "stp q2, q3, [x9, #32]",
    "stp q4, q5, [x9, #64]",
    "stp q6, q7, [x9, #96]",
    "stp q8, q9, [x9, #128]",
    "stp q10, q11, [x9, #160]",
    "stp q12, q13, [x9, #192]",
    "stp q14, q15, [x9, #224]",
    "ldr x9, [sp, #168]",
    "msr fpcr, x9",
    "ldp d14, d15, [sp, #144]",
    "ldp d12, d13, [sp, #128]",
    "ldp d10, d11, [sp, #112]",
    "ldp d8, d9, [sp, #96]",
    "ldp x27, x28, [sp, #80]",
    "ldp x25, x26, [sp, #64]",
    "ldp x23, x24, [sp, #48]",
    "ldp x21, x22, [sp, #32]",
    "ldp x19, x20, [sp, #16]",
    "ldp x29, x30, [sp], #192",
    "ret",
    ".popsection",
);

/// The registers of a thread, as the assembly lays them out.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Set {
    /// Those of the general-purpose registers that a system call keeps. On x86-64, word 0 is rax; on
    /// arm64, it is x8 and word 12 is x0.
    general: [u64; 16],
    vector: [u128; 16],
    /// MXCSR or FPCR.
    float: u64,
}

/// Where a system call takes its number and arguments, and leaves its result, in [`Set::general`].
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: [usize; 6] = [12, 4, 3, 7, 5, 6];
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: [usize; 6] = [12, 4, 3, 7, 5, 6];
const NUMBER: usize = 0;
const RESULT: usize = if cfg!(target_arch = "x86_64") { 0 } else { 12 };
/// Rounding towards zero, with all exceptions masked: not what programs start with.
const FLOAT: u64 = if cfg!(target_arch = "x86_64") {
    0x7f80
} else {
    0xc0_0000
};

unsafe extern "C" {
    static registers_text: u8;
    fn registers_hold(wanted: *const Set, found: *mut Set, spins: u64);
}

static STOP: AtomicBool = AtomicBool::new(false);

impl Set {
    fn of(round: u64) -> Set {
        let word = |index: u64| (round << 8 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut set = Set {
            general: std::array::from_fn(|index| word(index as u64)),
            vector: std::array::from_fn(|index| u128::from(word(index as u64 + 16)) << 32 | 0x55),
            float: FLOAT,
        };
        // The assembly has no registers for these words.
        set.general[13..].fill(0);
        set
    }

    fn hold(&self, spins: u64) -> Set {
        let mut found = Set {
            general: [0; 16],
            vector: [0; 16],
            float: 0,
        };
        // SAFETY: both are live and laid out as the assembly expects, which keeps what C functions keep.
        unsafe { registers_hold(self, &raw mut found, spins) };
        found
    }
}

fn wrong(what: &str) -> ! {
    println!("wrong: {what}");
    std::process::exit(1);
}

/// Fills all registers and makes a call. All but the result must stay.
fn call(round: u64, number: libc::c_long, arguments: [u64; 6], expected: i64) {
    let mut wanted = Set::of(round);
    wanted.general[NUMBER] = number as u64;
    for (place, argument) in ARGUMENTS.into_iter().zip(arguments) {
        wanted.general[place] = argument;
    }
    let found = wanted.hold(0);
    wanted.general[RESULT] = expected as u64;
    if found != wanted {
        wrong(&format!("call {number}: {found:x?} instead of {wanted:x?}"));
    }
}

static NAP: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

fn work(index: usize, round: u64) {
    let nap = (&raw const NAP).addr() as u64;
    match index % 4 {
        0 => {
            let wanted = Set::of(round);
            let found = wanted.hold(2_000_000);
            if found != wanted {
                wrong(&format!("computing: {found:x?} instead of {wanted:x?}"));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        1 => call(round, libc::SYS_nanosleep, [nap, 0, 0, 4, 5, 6], 0),
        2 => call(round, libc::SYS_ppoll, [0, 0, nap_of_its_own(), 0, 8, 6], 0),
        _ => {
            let word = AtomicU32::new(0);
            let timed_out = -i64::from(libc::ETIMEDOUT);
            let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
            let at = word.as_ptr().addr() as u64;
            call(
                round,
                libc::SYS_futex,
                [at, operation, 0, nap, 5, 6],
                timed_out,
            );
        }
    }
}

/// ppoll(2) writes the time that is left.
fn nap_of_its_own() -> u64 {
    thread_local!(static LEFT: std::cell::UnsafeCell<libc::timespec> = const { std::cell::UnsafeCell::new(libc::timespec { tv_sec: 0, tv_nsec: 0 }) });
    LEFT.with(|left| {
        // SAFETY: no reference to it exists, and only this thread uses it.
        unsafe { left.get().write(NAP) };
        left.get().addr() as u64
    })
}

/// Blocks some signals, which differ from thread to thread, and returns them.
fn block(index: usize) -> libc::sigset_t {
    // SAFETY: live sets.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        for (bit, signal) in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP]
            .into_iter()
            .enumerate()
        {
            if index >> bit & 1 == 1 {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, null_mut());
        set
    }
}

fn check_blocked(expected: &libc::sigset_t) {
    // SAFETY: live sets.
    unsafe {
        let mut now: libc::sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, null_mut(), &raw mut now);
        for signal in 1..libc::SIGRTMAX() {
            if libc::sigismember(&raw const now, signal) != libc::sigismember(expected, signal) {
                wrong(&format!("signal {signal} is blocked or not, unlike before"));
            }
        }
    }
}

fn main() {
    // Without a reference, the linker drops the text.
    std::hint::black_box(&raw const registers_text);
    let threads: usize = std::env::args()
        .nth(1)
        .map_or(4, |n| n.parse().expect("a number"));
    let rounds: &[AtomicU64] = (0..threads)
        .map(|_| AtomicU64::new(0))
        .collect::<Vec<_>>()
        .leak();
    for (index, done) in rounds.iter().enumerate() {
        std::thread::spawn(move || {
            let blocked = block(index);
            while !STOP.load(Ordering::Relaxed) {
                work(index, done.fetch_add(1, Ordering::Relaxed));
                check_blocked(&blocked);
            }
        });
    }
    let catch_up = || all_go_on(rounds).unwrap_or_else(|| wrong("a thread is stuck"));
    catch_up();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let _ = line;
        println!("ok {}", catch_up());
    }
    STOP.store(true, Ordering::Relaxed);
    println!("done");
}
