//! Calls on sockets with a time limit. A stop makes them fail with EINTR.

use std::io::{self, Read, Write};
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::ptr::null_mut;
use std::time::Duration;

use crate::{Held, Prepare, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    ("recv", || {
        // SAFETY: every argument is live and of the size given.
        receiving(|fd, buffer, len| unsafe { libc::recv(fd, buffer, len, 0) as i64 })
    }),
    ("read-socket", || {
        // SAFETY: every argument is live and of the size given.
        receiving(|fd, buffer, len| unsafe { libc::read(fd, buffer, len) as i64 })
    }),
    ("recvmsg", || {
        receiving(|fd, buffer, len| {
            message(buffer, len, |message| {
                // SAFETY: a live message.
                unsafe { libc::recvmsg(fd, message, 0) as i64 }
            })
        })
    }),
    ("readv-socket", || {
        receiving(|fd, buffer, len| {
            let part = libc::iovec {
                iov_base: buffer,
                iov_len: len,
            };
            // SAFETY: one live part.
            unsafe { libc::readv(fd, &raw const part, 1) as i64 }
        })
    }),
    ("recvmmsg", || {
        receiving(|fd, buffer, len| {
            messages(buffer, len, |messages| {
                // SAFETY: one live message, and no time.
                unsafe { libc::recvmmsg(fd, messages, 1, 0, null_mut()) }
            })
        })
    }),
    ("accept", || {
        // SAFETY: every argument is live and of the size given.
        accepting(|fd| unsafe { libc::accept(fd, null_mut(), null_mut()) })
    }),
    ("accept4", || {
        // SAFETY: every argument is live and of the size given.
        accepting(|fd| unsafe { libc::accept4(fd, null_mut(), null_mut(), libc::SOCK_CLOEXEC) })
    }),
    ("send", || {
        // SAFETY: every argument is live and of the size given.
        sending(|fd, buffer, len| unsafe { libc::send(fd, buffer, len, 0) as i64 })
    }),
    ("write-socket", || {
        // SAFETY: every argument is live and of the size given.
        sending(|fd, buffer, len| unsafe { libc::write(fd, buffer, len) as i64 })
    }),
    ("sendmsg", || {
        sending(|fd, buffer, len| {
            message(buffer.cast_mut(), len, |message| {
                // SAFETY: a live message.
                unsafe { libc::sendmsg(fd, message, 0) as i64 }
            })
        })
    }),
    ("sendmmsg", || {
        sending(|fd, buffer, len| {
            messages(buffer.cast_mut(), len, |messages| {
                // SAFETY: one live message.
                unsafe { libc::sendmmsg(fd, messages, 1, 0) }
            })
        })
    }),
    ("connect", connecting),
];

/// Calls with a message of one part, without address and control data.
fn message(
    buffer: *mut libc::c_void,
    len: usize,
    call: impl FnOnce(*mut libc::msghdr) -> i64,
) -> i64 {
    let mut part = libc::iovec {
        iov_base: buffer,
        iov_len: len,
    };
    // SAFETY: all zeroes are a message without parts, address and control data.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    call(&raw mut message)
}

/// As [`message`], for calls with several, of which this is the only one. Returns its bytes, or -1.
fn messages(
    buffer: *mut libc::c_void,
    len: usize,
    call: impl FnOnce(*mut libc::mmsghdr) -> i32,
) -> i64 {
    message(buffer, len, |message| {
        let mut messages = libc::mmsghdr {
            // SAFETY: a live message, of which nobody else has a reference.
            msg_hdr: unsafe { *message },
            msg_len: 0,
        };
        match call(&raw mut messages) {
            1 => messages.msg_len.into(),
            other => other.into(),
        }
    })
}

const LIMIT: Option<Duration> = Some(Duration::from_secs(36_000));

fn receiving(call: fn(i32, *mut libc::c_void, usize) -> i64) -> io::Result<Held> {
    let (near, mut far) = UnixStream::pair()?;
    near.set_read_timeout(LIMIT)?;
    Ok(Held::new(
        3,
        move || {
            let mut buffer = [0u8; 16];
            let received = call(near.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len());
            result(received)
        },
        move || far.write_all(b"abc").unwrap(),
    ))
}

fn accepting(call: fn(i32) -> i32) -> io::Result<Held> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path)?;
    // SAFETY: a socket option with a live value of its size.
    unsafe {
        let limit = libc::timeval {
            tv_sec: 36_000,
            tv_usec: 0,
        };
        let size = size_of_val(&limit) as libc::socklen_t;
        let limit = (&raw const limit).cast();
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            limit,
            size,
        );
    }
    Ok(Held::new(
        0,
        move || result(call(listener.as_raw_fd()).into()).min(0),
        move || {
            drop(UnixStream::connect(path).unwrap());
            drop(directory);
        },
    ))
}

fn sending(call: fn(i32, *const libc::c_void, usize) -> i64) -> io::Result<Held> {
    let (mut near, mut far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let mut full = 0;
    while let Ok(sent) = near.write(&[0; 4096]) {
        full += sent;
    }
    near.set_nonblocking(false)?;
    near.set_write_timeout(LIMIT)?;
    Ok(Held::new(
        3,
        move || result(call(near.as_raw_fd(), b"abc".as_ptr().cast(), 3)),
        move || {
            let mut taken = vec![0; full + 3];
            far.read_exact(&mut taken).unwrap();
        },
    ))
}

fn connecting() -> io::Result<Held> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path)?;
    // SAFETY: a valid listening socket; its queue holds one connection then.
    unsafe { libc::listen(listener.as_raw_fd(), 0) };
    let waiting = UnixStream::connect(&path)?;
    let listening = listener.try_clone()?;
    // SAFETY: sockets of no other owner, a zeroed address filled below, and live options.
    let (fd, address) = unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        let limit = libc::timeval {
            tv_sec: 36_000,
            tv_usec: 0,
        };
        let size = size_of_val(&limit) as libc::socklen_t;
        let limit = (&raw const limit).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, limit, size);
        let mut address: libc::sockaddr_un = zeroed();
        address.sun_family = libc::AF_UNIX as _;
        for (to, from) in address
            .sun_path
            .iter_mut()
            .zip(path.as_os_str().as_encoded_bytes())
        {
            *to = *from as _;
        }
        (fd, address)
    };
    Ok(Held::new(
        0,
        move || {
            let size = size_of_val(&address) as libc::socklen_t;
            // SAFETY: a live address of that size.
            let connected = unsafe { libc::connect(fd, (&raw const address).cast(), size) };
            // Before anything else changes errno.
            let connected = result(connected.into());
            // The kernel looks for the socket again when there is room.
            drop((directory, listening));
            connected
        },
        move || {
            drop(listener.accept().unwrap());
            drop(waiting);
        },
    ))
}
