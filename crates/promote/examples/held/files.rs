//! Waiting on pipes, FIFOs, locks, directories and children.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

use crate::{Held, Prepare, done, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    ("read-pipe", || {
        let (reader, mut writer) = io::pipe()?;
        let call = move || {
            let mut byte = 0u8;
            // SAFETY: one live byte.
            result(unsafe { libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1) } as _)
        };
        Ok(Held::new(1, call, move || writer.write_all(b"x").unwrap()))
    }),
    ("open-fifo", fifo),
    ("flock", || {
        // SAFETY: every argument is live and of the size given.
        locking(|fd| unsafe { libc::flock(fd, libc::LOCK_EX) })
    }),
    ("lock-of-description", || {
        // SAFETY: every argument is live and of the size given.
        locking(|fd| unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &mut whole()) })
    }),
    ("inotify", inotify),
    ("waitid", child),
];

fn fifo() -> io::Result<Held> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("fifo");
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a live name.
    done(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }.into())?;
    // SAFETY: a live name.
    let call = move || result(unsafe { libc::open(name.as_ptr(), libc::O_RDONLY) }.into()).min(0);
    let release = move || {
        drop(OpenOptions::new().write(true).open(path).unwrap());
        drop(directory);
    };
    Ok(Held::new(0, call, release))
}

fn whole() -> libc::flock {
    // SAFETY: all zeroes are a lock of the whole file, whose type is set.
    libc::flock {
        l_type: libc::F_WRLCK as _,
        ..unsafe { std::mem::zeroed() }
    }
}

fn locking(lock: fn(i32) -> i32) -> io::Result<Held> {
    let directory = tempfile::tempdir()?;
    let open = || {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        options.open(directory.path().join("file"))
    };
    let (holder, waiter) = (open()?, open()?);
    done(lock(holder.as_raw_fd()).into())?;
    Ok(Held::new(
        0,
        move || result(lock(waiter.as_raw_fd()).into()),
        move || drop((holder, directory)),
    ))
}

fn inotify() -> io::Result<Held> {
    let directory = tempfile::tempdir()?;
    let name = CString::new(directory.path().as_os_str().as_bytes())?;
    // SAFETY: a live name; the descriptor has no other owner.
    let watch = unsafe {
        let fd = done(libc::inotify_init1(0).into())? as i32;
        done(libc::inotify_add_watch(fd, name.as_ptr(), libc::IN_CREATE).into())?;
        File::from_raw_fd(fd)
    };
    let call = move || {
        let mut event = [0u8; 256];
        let room = event.as_mut_ptr().cast();
        // SAFETY: room for an event with a short name.
        result(unsafe { libc::read(watch.as_raw_fd(), room, event.len()) } as _).min(1)
    };
    let release = move || {
        fs::write(directory.path().join("new"), "").unwrap();
        drop(directory);
    };
    Ok(Held::new(1, call, release))
}

fn child() -> io::Result<Held> {
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()?;
    let input = child.stdin.take();
    let id = child.id();
    let call = move || {
        // SAFETY: the call only waits for the child's end.
        result(unsafe { libc::waitid(libc::P_PID, id, null_mut(), libc::WEXITED) }.into())
    };
    Ok(Held::new(0, call, move || drop(input)))
}
