//! The ptrace requests that nix does not wrap, and the other unsafe code of promotion.
//!
//! Invariants: the thread that seized `tid` makes each request. The kernel answers ESRCH to any
//! other thread. Each request that transfers data names a live local whose size is exactly what
//! the kernel reads or writes.

use std::ffi::{c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use hugetext_host::Tid;
use rustix::ioctl::{Opcode, opcode};

/// PTRACE_GET_RSEQ_CONFIGURATION (include/uapi/linux/ptrace.h, Linux 5.13), and its data.
const GET_RSEQ_CONFIGURATION: u32 = 0x420f;

#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct RseqConfiguration {
    abi_pointer: u64,
    abi_size: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

/// PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG (include/uapi/linux/ptrace.h, Linux 6.4), and its data.
const GET_SYSCALL_USER_DISPATCH_CONFIG: u32 = 0x4211;

#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct UserDispatchConfiguration {
    mode: u64,
    selector: u64,
    offset: u64,
    len: u64,
}

/// The signals a thread blocks, one bit each (PTRACE_GETSIGMASK).
pub(crate) fn blocked_signals(tid: Tid) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes size_of::<u64>() bytes, its sigset_t, to a live local.
    unsafe { transfer(libc::PTRACE_GETSIGMASK, tid, &raw mut mask)? };
    Ok(mask)
}

/// Sets the signals that a thread blocks (PTRACE_SETSIGMASK). If a call such as sigsuspend has
/// saved a mask to restore, this request replaces the saved mask. The restarted call sets its own
/// mask again.
pub(crate) fn block_signals(tid: Tid, mut mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads size_of::<u64>() bytes from a live local.
    unsafe { transfer(libc::PTRACE_SETSIGMASK, tid, &raw mut mask) }
}

/// Continues a thread from a signal-delivery-stop so that it takes the signal. nix has no names
/// for real-time signals.
pub(crate) fn deliver(tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: PTRACE_CONT transfers no data.
    check(unsafe {
        libc::ptrace(
            libc::PTRACE_CONT as _,
            tid.as_raw(),
            0,
            c_long::from(signal),
        )
    })
}

/// Leaves a thread in the stop of job control in which it is (PTRACE_LISTEN). nix has no such request.
pub(crate) fn listen(tid: Tid) -> io::Result<()> {
    // SAFETY: PTRACE_LISTEN transfers no data.
    check(unsafe { libc::ptrace(libc::PTRACE_LISTEN as _, tid.as_raw(), 0, 0) })
}

/// Sleeps until the kernel reports an event of a traced thread to this process (SIGCHLD), but at
/// most for `limit`. The caller blocks all signals, so a signal that was sent before stays
/// pending. Another thread of this process that does not block the signal may take it, so `limit`
/// must be short.
pub(crate) fn wait_for_news(limit: Duration) {
    let time = libc::timespec {
        tv_sec: limit.as_secs() as _,
        tv_nsec: limit.subsec_nanos() as _,
    };
    let mut children = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset() initializes the set, which the other calls only use afterwards. No
    // information is requested, and the time is a live local.
    unsafe {
        libc::sigemptyset(children.as_mut_ptr());
        libc::sigaddset(children.as_mut_ptr(), libc::SIGCHLD);
        libc::sigtimedwait(children.as_ptr(), std::ptr::null_mut(), &raw const time);
    }
}

/// The address of a thread's struct rseq. `None` if the thread has registered none or the kernel
/// cannot report it.
pub(crate) fn rseq_address(tid: Tid) -> Option<u64> {
    let mut configuration = RseqConfiguration::default();
    // SAFETY: the kernel writes one struct ptrace_rseq_configuration to a live local.
    unsafe { transfer(GET_RSEQ_CONFIGURATION, tid, &raw mut configuration) }.ok()?;
    Some(configuration.abi_pointer).filter(|address| *address != 0)
}

/// Whether a thread has its system calls dispatched to itself (prctl PR_SET_SYSCALL_USER_DISPATCH).
pub(crate) fn dispatches_syscalls(tid: Tid) -> bool {
    let mut configuration = UserDispatchConfiguration::default();
    // SAFETY: the kernel writes one struct ptrace_sud_config to a live local.
    let known = unsafe {
        transfer(
            GET_SYSCALL_USER_DISPATCH_CONFIG,
            tid,
            &raw mut configuration,
        )
    };
    known.is_ok() && configuration.mode != 0
}

/// Sets a register set of a stopped thread (PTRACE_SETREGSET) that consists of one `T`.
#[cfg(target_arch = "aarch64")]
pub(crate) fn set_register_set<T: Copy>(tid: Tid, kind: usize, mut value: T) -> io::Result<()> {
    let vector = libc::iovec {
        iov_base: (&raw mut value).cast(),
        iov_len: size_of::<T>(),
    };
    // SAFETY: the vector names a live local and its size; the kernel reads at most that much.
    check(unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGSET as _,
            tid.as_raw(),
            kind,
            (&raw const vector).cast::<c_void>(),
        )
    })
}

/// Makes the calls that move the image of a program (`at_exec/tracee.rs`), with the same flags, on pages of this process. The
/// call that tells the kernel names no memory: what the kernel says of that shows that it was admitted.
pub(crate) fn rehearse_placing() -> io::Result<()> {
    let page = rustix::param::page_size();
    let exec = libc::PROT_READ | libc::PROT_EXEC;
    let private = libc::MAP_PRIVATE;
    let admitted = |called: *mut c_void| match called {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        place => Ok(place),
    };
    // SAFETY: the path is a constant string. Every address is of these three pages, which were mapped here and are known to
    // nobody else. A null pointer to parts changes nothing.
    unsafe {
        let open = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY;
        let path = c"/proc/self/exe".as_ptr();
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, open, 0);
        check(file)?;
        let anonymous = private | libc::MAP_ANONYMOUS;
        let first = libc::mmap(
            std::ptr::null_mut(),
            3 * page,
            libc::PROT_READ,
            anonymous,
            -1,
            0,
        );
        let first = admitted(first)?;
        let (second, third) = (first.byte_add(page), first.byte_add(2 * page));
        check(libc::munmap(second, page).into())?;
        let flags = private | libc::MAP_FIXED_NOREPLACE;
        admitted(libc::mmap(second, page, exec, flags, file as c_int, 0))?;
        let to = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        admitted(libc::mremap(first, page, page, to, third))?;
        check(libc::munmap(second, 2 * page).into())?;
        check(libc::close(file as c_int).into())?;
        let none = std::ptr::null::<c_void>();
        let told = libc::syscall(libc::SYS_prctl, SET_MM, SET_MM_MAP, none, MAP_SIZE, 0);
        match check(told) {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
            other => other,
        }
    }
}

/// prctl(PR_SET_MM, PR_SET_MM_MAP) (include/uapi/linux/prctl.h), and the size of what it is given.
pub(crate) const SET_MM: u64 = libc::PR_SET_MM as u64;
pub(crate) const SET_MM_MAP: u64 = libc::PR_SET_MM_MAP as u64;
const MAP_SIZE: u64 = 104;

/// struct procmap_query of the PROCMAP_QUERY ioctl (include/uapi/linux/fs.h, Linux 6.11).
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct MapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    pub(crate) vma_start: u64,
    pub(crate) vma_end: u64,
    pub(crate) vma_flags: u64,
    vma_page_size: u64,
    pub(crate) vma_offset: u64,
    pub(crate) inode: u64,
    pub(crate) dev_major: u32,
    pub(crate) dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// _IOWR('f', 17, struct procmap_query)
const PROCMAP_QUERY: Opcode = opcode::read_write::<MapQuery>(b'f', 17);

/// PROCMAP_QUERY_COVERING_OR_NEXT_VMA
const OR_NEXT: u64 = 0x10;

/// Asks for the first mapping at or above `address` of the process behind `maps`, its
/// /proc/PID/maps. ENOENT: there is none. ENOTTY: the kernel does not know the request (Linux
/// before 6.11).
pub(crate) fn query_map(maps: &File, address: u64) -> io::Result<MapQuery> {
    let mut query = MapQuery {
        size: size_of::<MapQuery>() as u64,
        query_flags: OR_NEXT,
        query_addr: address,
        ..MapQuery::default()
    };
    // SAFETY: the kernel reads and writes a live block, whose size the block itself contains. No
    // name and no build-id is requested, so the kernel accesses no other memory.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
    match result {
        0.. => Ok(query),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A request whose address argument is the size of its data.
///
/// # Safety
/// The request must transfer at most `size_of::<T>()` bytes, and any such bytes must be a `T`.
unsafe fn transfer<T: Copy>(request: u32, tid: Tid, data: *mut T) -> io::Result<()> {
    // SAFETY: as promised by the caller; data points to a T.
    check(unsafe {
        libc::ptrace(
            request as _,
            tid.as_raw(),
            size_of::<T>(),
            data.cast::<c_void>(),
        )
    })
}

fn check(result: c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
