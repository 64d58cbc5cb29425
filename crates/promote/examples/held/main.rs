//! A program for tests of promotion. It waits in one blocking call, which a stop must not end.
//!
//! `held` lists its kinds of calls. `held KIND` prints `ready` and enters the call. When a line of
//! input comes, it makes the call end normally; then it prints `ok`, or `wrong: WHAT`. If this
//! kernel lacks the kind, it prints `skipped: WHY` instead of `ready`. The program has [`LEN`]
//! bytes of text to promote.

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

/// A blocking call, and the action that ends it.
struct Held {
    /// Makes the call. Returns its result. An error is returned as its negated number.
    call: Box<dyn FnOnce() -> i64>,
    /// The action of another thread that ends the call.
    release: Box<dyn FnOnce() + Send>,
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

fn line() -> usize {
    io::stdin().read_line(&mut String::new()).unwrap()
}

fn kinds() -> impl Iterator<Item = (&'static str, Prepare)> {
    [
        sockets::KINDS,
        events::KINDS,
        ipc::KINDS,
        files::KINDS,
        signals::KINDS,
        uring::KINDS,
        vhost::KINDS,
        children::KINDS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

fn main() {
    // SAFETY: the text is never written to.
    assert_eq!(unsafe { held_text[LEN / 2] }, 0xcc);
    let Some(wanted) = std::env::args().nth(1) else {
        kinds().for_each(|(name, _)| println!("{name}"));
        return;
    };
    if wanted == "mask" {
        return signals::mask();
    }
    let (_, prepare) = kinds().find(|(name, _)| *name == wanted).unwrap();
    let held = match prepare() {
        Ok(held) => held,
        Err(error) => return println!("skipped: {error}"),
    };
    let release = held.release;
    let releaser = std::thread::spawn(|| {
        line();
        release();
    });
    println!("ready");
    let returned = (held.call)();
    if returned == held.expected {
        println!("ok")
    } else {
        println!("wrong: returned {returned}, not {}", held.expected)
    }
    // If the call ended too early, no line of input follows, and the process simply ends.
    drop(releaser);
}
