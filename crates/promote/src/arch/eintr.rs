//! What the architectures have in common about calls that end with EINTR.

use libc::c_long;

pub(super) const EINTR: i64 = -(libc::EINTR as i64);
/// ERESTARTNOHAND (include/linux/errno.h): the kernel's own code for "restart this call, unless a
/// handler runs".
pub(super) const RESTART_UNLESS_HANDLED: i64 = -514;

/// See [`super::Architecture::TIMED_ON_SOCKETS`]. libc names all of these on the architectures that can promote.
pub(super) const TIMED_ON_SOCKETS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];
