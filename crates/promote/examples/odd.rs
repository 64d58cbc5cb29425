//! Programs in a state that promotion must name: `odd KIND [ARGUMENT]` prints `ready` and stays so until its
//! standard input ends or it is killed. It never executes the text that it carries.
//!
//! - `headless`: the first thread has ended, another runs.
//! - `vfork`: the only thread waits for a child of vfork(2), which does not execute a program.
//! - `execs`: it executes itself again and again.
//! - `crowded SPARE`: it has all mappings that the kernel permits, but SPARE.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::{c_long, c_void};
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

// Text with whole windows, at any address.
std::arch::global_asm!(
    ".pushsection .text.odd, \"ax\"",
    ".balign 4096",
    ".globl odd_text",
    "odd_text:",
    ".skip 8388608",
    ".popsection",
);

unsafe extern "C" {
    static odd_text: u8;
}

fn main() {
    // Without a reference, the linker drops the text.
    std::hint::black_box(&raw const odd_text);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = arguments.get(1).map_or("", String::as_str);
    match arguments.first().map(String::as_str) {
        Some("headless") => headless(),
        Some("vfork") => vfork(),
        Some("execs") => execs(argument),
        Some("crowded") => crowded(argument.parse().expect("a number")),
        _ => panic!("odd headless|vfork|execs|crowded SPARE"),
    }
    wait();
}

/// Tells that the state is reached, and waits for the end of the standard input.
fn wait() {
    println!("ready");
    std::io::stdin().lock().lines().for_each(drop);
}

fn headless() -> ! {
    std::thread::spawn(|| {
        // The first thread ends in a moment.
        while !std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        wait();
        std::process::exit(0);
    });
    // SAFETY: ends this thread alone. The other one uses nothing of its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

fn vfork() -> ! {
    println!("ready");
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child uses the parent's stack while the parent waits, as after vfork(2). The parent
    // never runs again: the child waits until the parent is killed, and is killed with it.
    unsafe {
        if libc::syscall(libc::SYS_clone, c_long::from(flags), 0, 0, 0, 0) == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
    }
    panic!("the child ended")
}

fn execs(round: &str) -> ! {
    if round.is_empty() {
        println!("ready");
    }
    let own = std::env::current_exe().unwrap();
    panic!("{}", Command::new(own).args(["execs", "again"]).exec())
}

fn crowded(spare: usize) {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let mapped = std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count();
    let wanted = most - mapped - spare;
    // SAFETY: new memory. Pages with and without rights take turns, so that each is a mapping.
    unsafe {
        let page = 4096 * 16;
        let none = libc::PROT_NONE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(null_mut(), wanted * page, none, kind, -1, 0);
        assert!(start != libc::MAP_FAILED);
        for index in (1..wanted - 1).step_by(2) {
            let at: *mut c_void = start.byte_add(index * page);
            if libc::mprotect(at, page, libc::PROT_READ) != 0 {
                break;
            }
        }
    }
}
