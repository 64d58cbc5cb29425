//! io_uring: waits for a completion while the kernel's own threads of the process do the work.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Held, Prepare, done, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[
    // The call waits, and no other thread of the process is in one.
    ("io_uring_enter", || reading(0, 0)),
    // A worker (iou-wrk) is blocked in the read.
    ("io_uring-worker", || reading(0, IOSQE_ASYNC)),
    // A poller (iou-sqp) takes the request.
    ("io_uring-poller", || {
        reading(IORING_SETUP_SQPOLL, IOSQE_ASYNC)
    }),
];

// include/uapi/linux/io_uring.h
const IORING_SETUP_SQPOLL: u32 = 1 << 1;
const IOSQE_ASYNC: u8 = 1 << 4;
const IORING_OP_READ: u8 = 22;
const IORING_ENTER_GETEVENTS: u32 = 1;
const IORING_ENTER_SQ_WAKEUP: u32 = 2;
const IORING_OFF_SQ_RING: i64 = 0;
const IORING_OFF_SQES: i64 = 0x1000_0000;

#[repr(C)]
#[derive(Default)]
struct Parameters {
    entries: [u32; 2],
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, then reserved.
    sq: [u32; 10],
    cq: [u32; 10],
}

/// The first bytes of struct io_uring_sqe; the rest is zero.
#[repr(C)]
struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    len: u32,
    rest: [u32; 9],
}

/// Submits a read from a pipe and waits for its completion.
fn reading(setup: u32, flags: u8) -> io::Result<Held> {
    let (reader, mut writer) = io::pipe()?;
    let buffer: &'static mut [u8; 8] = Box::leak(Box::new([0; 8]));
    let mut parameters = Parameters {
        flags: setup,
        sq_thread_idle: 1000,
        ..Parameters::default()
    };
    // SAFETY: a live, zeroed struct io_uring_params.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, &raw mut parameters) };
    let ring = done(ring)? as i32;
    let map = |offset| {
        let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at no given address; the rings of 4 entries fit a page.
        unsafe { libc::mmap(null_mut(), 4096, rights, shared, ring, offset).cast::<u8>() }
    };
    let (queue, entries) = (map(IORING_OFF_SQ_RING), map(IORING_OFF_SQES));
    // SAFETY: offsets that the kernel gave into the mapping that it made.
    let word =
        |field: usize| unsafe { &*queue.add(parameters.sq[field] as usize).cast::<AtomicU32>() };
    let entry = Entry {
        opcode: IORING_OP_READ,
        flags,
        priority: 0,
        fd: reader.as_raw_fd(),
        offset: u64::MAX,
        address: buffer.as_mut_ptr() as u64,
        len: 8,
        rest: [0; 9],
    };
    // SAFETY: the first entry, which has not been submitted to the kernel yet.
    unsafe { entries.cast::<Entry>().write(entry) };
    word(6).store(0, Ordering::Relaxed);
    word(1).store(1, Ordering::Release);
    let submit = match setup {
        0 => enter(ring, 1, 0, 0),
        _ => enter(ring, 0, 0, IORING_ENTER_SQ_WAKEUP),
    };
    done(submit)?;
    let call = move || {
        let _reader = reader;
        result(enter(ring, 0, 1, IORING_ENTER_GETEVENTS))
    };
    Ok(Held::new(0, call, move || writer.write_all(b"x").unwrap()))
}

fn enter(ring: i32, submit: u32, complete: u32, flags: u32) -> libc::c_long {
    // SAFETY: no signal mask is given; the rings and the buffer live as long as the process.
    unsafe {
        libc::syscall(
            libc::SYS_io_uring_enter,
            ring,
            submit,
            complete,
            flags,
            null::<u8>(),
            0,
        )
    }
}
