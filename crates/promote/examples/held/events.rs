//! Waiting for events: epoll, poll, select, futexes, AIO.

use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Held, Prepare, done, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    ("epoll_wait", || {
        // SAFETY: every argument is live and of the size given.
        epoll(|fd, event| unsafe { libc::epoll_wait(fd, event, 1, -1) })
    }),
    ("epoll_pwait", || {
        // SAFETY: the caller's live event; no mask.
        epoll(|fd, event| unsafe { libc::epoll_pwait(fd, event, 1, -1, null()) })
    }),
    ("epoll_pwait2", || {
        // SAFETY: every argument is live and of the size given.
        epoll(|fd, event| unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                event,
                1,
                null::<u8>(),
                null::<u8>(),
                8,
            ) as i32
        })
    }),
    ("poll", || {
        // SAFETY: every argument is live and of the size given.
        polling(|entry| unsafe { libc::poll(entry, 1, 36_000_000) })
    }),
    ("ppoll", || {
        // SAFETY: every argument is live and of the size given.
        polling(|entry| unsafe { libc::ppoll(entry, 1, null(), null()) })
    }),
    ("select", || {
        selecting(|fds, set| {
            let mut limit = libc::timeval {
                tv_sec: 36_000,
                tv_usec: 0,
            };
            // SAFETY: a live set and time.
            unsafe { libc::select(fds, set, null_mut(), null_mut(), &raw mut limit) }
        })
    }),
    ("pselect", || {
        // SAFETY: a live set; no time and no mask.
        selecting(|fds, set| unsafe {
            libc::pselect(fds, set, null_mut(), null_mut(), null(), null())
        })
    }),
    ("futex", || futex(libc::FUTEX_WAIT)),
    // sem_wait(3) and pthread_cond_wait(3) of glibc wait so.
    ("futex-bitset", || futex(libc::FUTEX_WAIT_BITSET)),
    ("eventfd", || {
        let fd = eventfd()?;
        Ok(Held::new(8, move || read_count(fd), move || signal(fd)))
    }),
    ("io_getevents", aio),
];

fn eventfd() -> io::Result<i32> {
    // SAFETY: no memory is involved.
    Ok(done(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }.into())? as i32)
}

/// Reads the eight bytes of an eventfd or a timerfd.
pub(crate) fn read_count(fd: i32) -> i64 {
    let mut value = 0u64;
    // SAFETY: eight live bytes.
    result(unsafe { libc::read(fd, (&raw mut value).cast(), 8) } as _)
}

fn signal(fd: i32) {
    // SAFETY: eight live bytes.
    let written = unsafe { libc::write(fd, 1u64.to_ne_bytes().as_ptr().cast(), 8) };
    assert_eq!(written, 8);
}

pub(crate) fn epoll(wait: fn(i32, *mut libc::epoll_event) -> i32) -> io::Result<Held> {
    let fd = eventfd()?;
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: a live event.
    let epoll = unsafe {
        let epoll = done(libc::epoll_create1(0).into())? as i32;
        done(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event).into())?;
        epoll
    };
    let call = move || {
        let mut event = event;
        result(wait(epoll, &raw mut event).into())
    };
    Ok(Held::new(1, call, move || signal(fd)))
}

fn polling(wait: fn(*mut libc::pollfd) -> i32) -> io::Result<Held> {
    let fd = eventfd()?;
    let call = move || {
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        result(wait(&raw mut entry).into())
    };
    Ok(Held::new(1, call, move || signal(fd)))
}

fn selecting(wait: fn(i32, *mut libc::fd_set) -> i32) -> io::Result<Held> {
    let fd = eventfd()?;
    let call = move || {
        // SAFETY: a set of zeroes is empty, and the descriptor is below its limit.
        let mut set = unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(fd, &raw mut set);
            set
        };
        result(wait(fd + 1, &raw mut set).into())
    };
    Ok(Held::new(1, call, move || signal(fd)))
}

/// `operation` is FUTEX_WAIT, whose time is a duration, or FUTEX_WAIT_BITSET, which gets none.
fn futex(operation: i32) -> io::Result<Held> {
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let call = move || {
        let limit = libc::timespec {
            tv_sec: 36_000,
            tv_nsec: 0,
        };
        // SAFETY: a leaked word and a live time.
        let returned = result(unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                operation,
                0,
                match operation {
                    libc::FUTEX_WAIT => &raw const limit,
                    _ => null(),
                },
                null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        });
        // If the call is made again after the word has changed, it has nothing to wait for.
        if returned == -i64::from(libc::EAGAIN) && word.load(Ordering::Relaxed) == 1 {
            return 0;
        }
        returned
    };
    let wake = move || {
        word.store(1, Ordering::Relaxed);
        // SAFETY: a leaked word.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
    };
    Ok(Held::new(0, call, wake))
}

/// struct iocb of include/uapi/linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    events: u64,
    rest: [u64; 4],
}

fn aio() -> io::Result<Held> {
    const IOCB_CMD_POLL: u16 = 5;
    let fd = eventfd()?;
    let mut context = 0u64;
    let mut request = Request {
        opcode: IOCB_CMD_POLL,
        fd: fd.cast_unsigned(),
        events: libc::POLLIN as u64,
        ..Request::default()
    };
    // SAFETY: live arguments of the documented shapes.
    unsafe {
        done(libc::syscall(libc::SYS_io_setup, 1, &raw mut context))?;
        let requests = [&raw mut request];
        done(libc::syscall(
            libc::SYS_io_submit,
            context,
            1,
            requests.as_ptr(),
        ))?;
    }
    let call = move || {
        let mut event = [0u64; 4];
        // SAFETY: room for one struct io_event.
        result(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                1,
                1,
                event.as_mut_ptr(),
                null::<u8>(),
            )
        })
    };
    Ok(Held::new(1, call, move || signal(fd)))
}
