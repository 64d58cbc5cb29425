//! A program for tests of promotion. It waits in blocking calls, which a stop must not end.
//!
//! `held` lists its kinds of calls, one on each line, with `alone: ` before a kind that other kinds
//! would disturb. `held KIND…` prints `ready` and enters a call of each kind: of the first in its first
//! thread, of each other one in a thread of its own. When a line of input comes, it makes the calls end
//! normally. Then it prints `ok`, or `wrong: KIND returned WHAT` for each that did not. If this kernel
//! lacks a kind, it prints `skipped: WHY` instead of `ready`. The program has [`LEN`] bytes of text to
//! promote.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod children;
mod events;
mod files;
mod ipc;
mod signals;
mod sockets;
mod uring;
mod vhost;

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

/// Bytes of text in addition to the program's own text: four windows, of which three lie
/// completely inside.
const LEN: usize = 8 << 20;

std::arch::global_asm!(
    ".pushsection .text.held, \"ax\", @progbits",
    ".balign 4096",
    ".globl held_text",
    "held_text:",
    ".skip 8388608, 0xcc",
    ".popsection",
);

unsafe extern "C" {
    static held_text: [u8; LEN];
}

type Release = Box<dyn FnOnce() + Send>;

/// A blocking call, and the action that ends it.
struct Held {
    /// Makes the call. Returns its result. An error is returned as its negated number.
    call: Box<dyn FnOnce() -> i64>,
    /// The action of another thread that ends the call.
    release: Release,
    /// The expected result of the call.
    expected: i64,
}

impl Held {
    fn new(
        expected: i64,
        call: impl FnOnce() -> i64 + 'static,
        release: impl FnOnce() + Send + 'static,
    ) -> Held {
        Held {
            call: Box::new(call),
            release: Box::new(release),
            expected,
        }
    }
}

/// Prepares a kind of call. Returns an error if this kernel lacks it.
type Prepare = fn() -> io::Result<Held>;

/// The result of a system call.
fn result(returned: libc::c_long) -> i64 {
    match returned {
        -1 => -i64::from(io::Error::last_os_error().raw_os_error().unwrap()),
        other => other,
    }
}

/// As [`result`], for the calls before the blocking one.
fn done(returned: libc::c_long) -> io::Result<libc::c_long> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    }
}

/// Each module's kinds, and whether a program that waits in one must wait in no other: the kernel's own
/// threads, and children that end all the time, change what a stop finds.
const KINDS: [(&[(&str, Prepare)], bool); 8] = [
    (sockets::KINDS, false),
    (events::KINDS, false),
    (ipc::KINDS, false),
    (files::KINDS, false),
    (signals::KINDS, false),
    (uring::KINDS, true),
    (vhost::KINDS, true),
    (children::KINDS, true),
];

fn list() {
    for (kinds, alone) in KINDS {
        let mark = if alone { "alone: " } else { "" };
        kinds.iter().for_each(|(name, _)| println!("{mark}{name}"));
    }
}

fn prepare(kind: &str) -> io::Result<Held> {
    // Some kinds use names of the process, which they give up before they wait.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let mut kinds = KINDS.iter().flat_map(|(kinds, _)| *kinds);
    let (_, prepare) = kinds.find(|(name, _)| *name == kind).unwrap();
    prepare()
}

/// What is wrong with the result of a call.
fn fault(kind: &str, returned: i64, expected: i64) -> Option<String> {
    (returned != expected).then(|| format!("{kind} returned {returned}, not {expected}; "))
}

/// A call that another thread waits in.
struct Beside {
    release: Release,
    fault: JoinHandle<Option<String>>,
}

/// Returns when a new thread sleeps in a call of this kind.
fn wait_beside(kind: String) -> io::Result<Beside> {
    let (prepared, preparation) = channel();
    let thread = thread::spawn(move || {
        let held = match prepare(&kind) {
            Ok(held) => held,
            Err(error) => {
                prepared.send(Err(error)).unwrap();
                return None;
            }
        };
        // SAFETY: no memory is involved.
        let number = unsafe { libc::gettid() };
        prepared.send(Ok((held.release, number))).unwrap();
        fault(&kind, (held.call)(), held.expected)
    });
    let (release, number) = preparation.recv().unwrap()?;
    let stat = format!("/proc/self/task/{number}/stat");
    while !std::fs::read_to_string(&stat)?.contains(") S ") {
        thread::yield_now();
    }
    Ok(Beside {
        release,
        fault: thread,
    })
}

/// Waits in calls of these kinds. Returns what is wrong with their results.
fn wait_in(first: &str, beside: impl Iterator<Item = String>) -> io::Result<String> {
    let beside: Vec<Beside> = beside.map(wait_beside).collect::<io::Result<_>>()?;
    let held = prepare(first)?;
    let (releases, threads): (Vec<_>, Vec<_>) = beside
        .into_iter()
        .map(|beside| (beside.release, beside.fault))
        .unzip();
    let release = held.release;
    // If the first call ended too early, no line of input follows, and the process simply ends.
    thread::spawn(|| {
        io::stdin().read_line(&mut String::new()).unwrap();
        releases.into_iter().for_each(|release| release());
        release();
    });
    println!("ready");
    if let Some(fault) = fault(first, (held.call)(), held.expected) {
        return Ok(fault);
    }
    let faults = threads.into_iter().map(|thread| thread.join().unwrap());
    Ok(faults.flatten().collect())
}

fn main() {
    // SAFETY: the text is never written to.
    assert_eq!(unsafe { held_text[LEN / 2] }, 0xcc);
    let mut wanted = std::env::args().skip(1);
    let Some(first) = wanted.next() else {
        return list();
    };
    if first == "mask" {
        return signals::mask();
    }
    match wait_in(&first, wanted) {
        Err(error) => println!("skipped: {error}"),
        Ok(faults) if faults.is_empty() => println!("ok"),
        Ok(faults) => println!("wrong: {faults}"),
    }
}
