//! Waiting in System V semaphores and messages, and in POSIX message queues.

use std::ffi::CString;
use std::io;
use std::ptr::null_mut;

use crate::{Held, Prepare, done, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    ("semop", || {
        // SAFETY: every argument is live and of the size given.
        semaphore(|id, step| unsafe { libc::semop(id, step, 1) })
    }),
    ("semtimedop", || {
        let limit = libc::timespec {
            tv_sec: 36_000,
            tv_nsec: 0,
        };
        // SAFETY: a live step and time.
        let call = move |id: i32, step: *mut libc::sembuf| unsafe {
            libc::syscall(libc::SYS_semtimedop, id, step, 1, &raw const limit) as i32
        };
        semaphore(call)
    }),
    ("msgrcv", message),
    ("msgsnd", full_messages),
    ("mq_receive", empty_queue),
    ("mq_send", full_queue),
];

fn semaphore(wait: impl Fn(i32, *mut libc::sembuf) -> i32 + 'static) -> io::Result<Held> {
    // SAFETY: no memory is involved.
    let id = done(unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }.into())? as i32;
    let step = |by| libc::sembuf {
        sem_num: 0,
        sem_op: by,
        sem_flg: 0,
    };
    let call = move || {
        let returned = result(wait(id, &mut step(-1)).into());
        // SAFETY: no memory is involved.
        unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
        returned
    };
    // SAFETY: a live step.
    let raise = move || assert_eq!(unsafe { libc::semop(id, &mut step(1), 1) }, 0);
    Ok(Held::new(0, call, raise))
}

fn message() -> io::Result<Held> {
    // SAFETY: no memory is involved.
    let id = done(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }.into())? as i32;
    let call = move || {
        let mut message = [0u64; 2];
        // SAFETY: room for a type and eight bytes.
        unsafe {
            let returned = result(libc::msgrcv(id, message.as_mut_ptr().cast(), 8, 0, 0) as _);
            libc::msgctl(id, libc::IPC_RMID, null_mut());
            returned
        }
    };
    let send = move || {
        // SAFETY: a live type and eight bytes.
        assert_eq!(
            // SAFETY: every argument is live and of the size given.
            unsafe { libc::msgsnd(id, [1u64, 2].as_ptr().cast(), 8, 0) },
            0
        );
    };
    Ok(Held::new(8, call, send))
}

/// Sends until the queue has no room, then once more. The release takes one message out.
fn full_messages() -> io::Result<Held> {
    // SAFETY: no memory is involved.
    let id = done(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }.into())? as i32;
    let message = [1u64; 128];
    let len = size_of_val(&message) - size_of::<u64>();
    // SAFETY: a live type and `len` bytes.
    let send = move |flags| unsafe { libc::msgsnd(id, message.as_ptr().cast(), len, flags) };
    while send(libc::IPC_NOWAIT) == 0 {}
    let call = move || {
        let returned = result(send(0).into());
        // SAFETY: no memory is involved.
        unsafe { libc::msgctl(id, libc::IPC_RMID, null_mut()) };
        returned
    };
    let take = move || {
        let mut taken = message;
        // SAFETY: room for a type and `len` bytes.
        let taken = unsafe { libc::msgrcv(id, taken.as_mut_ptr().cast(), len, 0, 0) };
        assert_eq!(taken, len as isize);
    };
    Ok(Held::new(0, call, take))
}

/// A queue of one message of one byte, which no other process can open.
fn queue() -> io::Result<libc::mqd_t> {
    let name = CString::new(format!("/held-{}", std::process::id()))?;
    // SAFETY: a live name and attributes.
    unsafe {
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        attributes.mq_maxmsg = 1;
        attributes.mq_msgsize = 1;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let queue = libc::mq_open(name.as_ptr(), flags, 0o600, &raw const attributes);
        let queue = done(queue.into())? as libc::mqd_t;
        done(libc::mq_unlink(name.as_ptr()).into())?;
        Ok(queue)
    }
}

fn mq_send(queue: libc::mqd_t) -> i64 {
    // SAFETY: one live byte.
    result(unsafe { libc::mq_send(queue, c"x".as_ptr(), 1, 0) }.into())
}

fn mq_receive(queue: libc::mqd_t) -> i64 {
    let mut byte = 0;
    // SAFETY: one live byte.
    result(unsafe { libc::mq_receive(queue, &raw mut byte, 1, null_mut()) } as _)
}

fn empty_queue() -> io::Result<Held> {
    let queue = queue()?;
    let call = move || mq_receive(queue);
    Ok(Held::new(1, call, move || assert_eq!(mq_send(queue), 0)))
}

fn full_queue() -> io::Result<Held> {
    let queue = queue()?;
    assert_eq!(mq_send(queue), 0);
    let call = move || mq_send(queue);
    Ok(Held::new(0, call, move || assert_eq!(mq_receive(queue), 1)))
}
