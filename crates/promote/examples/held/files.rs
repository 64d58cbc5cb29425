//! Waiting on pipes, FIFOs, terminals, timers, locks, directories and children.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;

use crate::{Held, Prepare, done, events, result};

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
    ("write-pipe", || {
        // SAFETY: every argument is live and of the size given.
        filling(|fd, bytes| unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
    }),
    ("writev-pipe", || {
        filling(|fd, bytes| {
            let part = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: one live part.
            unsafe { libc::writev(fd, &raw const part, 1) }
        })
    }),
    ("open-fifo", fifo),
    ("read-terminal", terminal),
    ("timerfd", timer),
    ("flock", || {
        // SAFETY: every argument is live and of the size given.
        locking(|fd| unsafe { libc::flock(fd, libc::LOCK_EX) })
    }),
    ("lock-of-description", || {
        // SAFETY: every argument is live and of the size given.
        locking(|fd| unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &mut whole()) })
    }),
    // The lock of a process conflicts with that of a description too.
    ("lock-of-process", || {
        locking(|fd| {
            // SAFETY: a live lock.
            match unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &mut whole()) } {
                // SAFETY: a live lock.
                -1 => unsafe { libc::fcntl(fd, libc::F_SETLKW, &mut whole()) },
                taken => taken,
            }
        })
    }),
    ("inotify", inotify),
    ("waitid", || {
        child(|id| {
            // SAFETY: the call only waits for the child's end.
            unsafe { libc::waitid(libc::P_PID, id, null_mut(), libc::WEXITED) }
        })
    }),
    ("wait4", || {
        child(|id| {
            // SAFETY: the call only waits for the child's end.
            match unsafe { libc::wait4(id.cast_signed(), null_mut(), 0, null_mut()) } {
                -1 => -1,
                _ => 0,
            }
        })
    }),
];

/// Writes to a pipe that has no room. The release reads all that is in it.
fn filling(write: fn(i32, &[u8]) -> isize) -> io::Result<Held> {
    let (mut reader, writer) = io::pipe()?;
    let fd = writer.as_raw_fd();
    // SAFETY: no memory is involved.
    let size = done(unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) }.into())?;
    (&writer).write_all(&vec![0; size as usize])?;
    let call = move || result(write(writer.as_raw_fd(), b"abc") as _);
    let release = move || {
        let mut taken = vec![0; size as usize];
        reader.read_exact(&mut taken).unwrap();
        // The writer stays until its call has returned.
        std::mem::forget(reader);
    };
    Ok(Held::new(3, call, release))
}

fn terminal() -> io::Result<Held> {
    let mut far = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/ptmx")?;
    let mut number = 0;
    // SAFETY: a live lock and number.
    unsafe {
        done(libc::ioctl(far.as_raw_fd(), libc::TIOCSPTLCK, &0i32).into())?;
        done(libc::ioctl(far.as_raw_fd(), libc::TIOCGPTN, &raw mut number).into())?;
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NOCTTY);
    let near = options.open(format!("/dev/pts/{number}"))?;
    let call = move || {
        let mut line = [0u8; 8];
        // SAFETY: eight live bytes.
        result(unsafe { libc::read(near.as_raw_fd(), line.as_mut_ptr().cast(), line.len()) } as _)
    };
    let release = move || {
        far.write_all(b"ab\n").unwrap();
        // Without this side, the read would end as at a hangup.
        std::mem::forget(far);
    };
    Ok(Held::new(3, call, release))
}

fn timer() -> io::Result<Held> {
    let in_seconds = |tv_sec| libc::itimerspec {
        // SAFETY: all zeroes are a timer that does not repeat.
        it_interval: unsafe { std::mem::zeroed() },
        it_value: libc::timespec { tv_sec, tv_nsec: 1 },
    };
    // SAFETY: no memory is involved.
    let fd = done(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) }.into())? as i32;
    // SAFETY: a live time.
    let set = move |time: libc::itimerspec| unsafe {
        libc::timerfd_settime(fd, 0, &raw const time, null_mut())
    };
    done(set(in_seconds(36_000)).into())?;
    let call = move || events::read_count(fd);
    Ok(Held::new(8, call, move || {
        assert_eq!(set(in_seconds(0)), 0)
    }))
}

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

fn child(wait: fn(u32) -> i32) -> io::Result<Held> {
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()?;
    let input = child.stdin.take();
    let id = child.id();
    Ok(Held::new(
        0,
        move || result(wait(id).into()),
        move || drop(input),
    ))
}
