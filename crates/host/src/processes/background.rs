//! A process that goes on when this one has ended, and is nobody's child here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::pipe::{PipeFlags, pipe_with};

/// Why a process in the background did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// It could not be created.
    #[error("no process in the background: {0}")]
    Start(io::Error),
    /// It ended before it was ready.
    #[error("a process in the background ended: {0}")]
    Ended(String),
}

/// How such a process says that it is ready.
#[derive(Debug)]
pub struct Ready(File);

/// What it says. Any other text says why it ends.
const READY: &[u8] = b"ready";

impl Ready {
    /// It is ready. Nobody hears what it says afterwards.
    pub fn tell(&self) {
        self.say(READY);
    }

    fn say(&self, text: &[u8]) {
        let _ = (&self.0).write_all(text);
    }
}

/// Does `work` in a process of its own, and returns as soon as that says that it is ready. It has no descriptor of this
/// process but `standard_error`, if there is one, and gets no signal that is sent to the group of this one. Nobody waits for its end.
///
/// The caller must have no other threads than those of [`super::ask`], as for [`super::in_child`].
pub fn in_background<F>(
    standard_error: Option<BorrowedFd<'_>>,
    work: F,
) -> Result<(), BackgroundError>
where
    F: FnOnce(&Ready) -> io::Result<()>,
{
    let (from, to) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| BackgroundError::Start(error.into()))?;
    // SAFETY: the contract requires one thread. So the child finds every lock free and may do whatever this process may do.
    match unsafe { libc::fork() } {
        -1 => Err(BackgroundError::Start(io::Error::last_os_error())),
        0 => {
            let _ = catch_unwind(AssertUnwindSafe(|| act(to, standard_error, work)));
            // SAFETY: this ends the process without the handlers of exit(3), which only its parent may run.
            unsafe { libc::_exit(0) }
        }
        _ => {
            drop(to);
            let mut said = [0; 512];
            // What a process says in one call is read in one.
            let read = File::from(from).read(&mut said);
            let heard = read.map_err(BackgroundError::Start)?;
            match said.get(..heard) {
                Some(READY) => Ok(()),
                said => {
                    let said = String::from_utf8_lossy(said.unwrap_or_default());
                    Err(BackgroundError::Ended(said.into_owned()))
                }
            }
        }
    }
}

fn act(
    to: OwnedFd,
    standard_error: Option<BorrowedFd<'_>>,
    work: impl FnOnce(&Ready) -> io::Result<()>,
) {
    let ready = match alone_with(to, standard_error) {
        Ok(to) => Ready(to),
        Err(_) => return,
    };
    if let Err(error) = work(&ready) {
        ready.say(error.to_string().as_bytes());
    }
}

/// Leaves the group of the parent, and its descriptors but for these: who reads from a pipe waits for all who could write.
fn alone_with(to: OwnedFd, standard_error: Option<BorrowedFd<'_>>) -> io::Result<File> {
    /// The number of `to` afterwards; those below are standard input, output and error.
    const FIRST: i32 = 3;
    // SAFETY: these calls take numbers and a constant string. The descriptors of the parent are used no more here: `act` was
    // given `to` alone, and leaves by _exit(2).
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        let error = standard_error.map_or(null, |error| error.as_raw_fd());
        libc::dup2(error, libc::STDERR_FILENO);
        if null < 0 || libc::dup2(to.as_raw_fd(), FIRST) < 0 {
            return Err(io::Error::last_os_error());
        }
        for standard in 0..libc::STDERR_FILENO {
            libc::dup2(null, standard);
        }
        super::watchdog::close_from(FIRST.saturating_add(1));
        std::mem::forget(to);
        Ok(File::from_raw_fd(FIRST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::in_child;

    #[test]
    fn it_goes_on_when_its_parent_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let (go, end) = (directory.path().join("go"), directory.path().join("end"));
        for pipe in [&go, &end] {
            let made = std::process::Command::new("mkfifo").arg(pipe).status();
            assert!(made.unwrap().success());
        }
        let begun = in_child(|| {
            let begun = in_background(None, |ready| {
                ready.tell();
                std::fs::read(&go)?;
                std::fs::write(&end, "x")
            });
            begun.map_err(|error| error.to_string())
        });
        assert_eq!(begun.unwrap(), Ok(()));
        // Its parent has ended by now.
        std::fs::write(&go, "x").unwrap();
        assert_eq!(std::fs::read(&end).unwrap(), b"x");
    }

    #[test]
    fn what_prevents_it_is_told() {
        let begun = in_child(|| {
            let begun = in_background(None, |_| Err(io::Error::other("no room")));
            begun.map_err(|error| error.to_string())
        });
        let said = begun.unwrap().unwrap_err();
        assert!(said.ends_with("no room"), "{said}");
        let panicked = in_child(|| in_background(None, |_| panic!("a defect")).is_err());
        assert!(panicked.unwrap());
    }
}
