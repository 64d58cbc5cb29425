//! How each architecture makes and restarts a system call.
//!
//! [`Architecture`] is all that promotion knows of one. Each has a file here. On an architecture
//! without a file, [`Native`] answers that nothing can be promoted.

use libc::c_long;

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod architecture;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod eintr;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::Native;
pub(crate) use architecture::{Architecture, Code, Decision, Interrupted, Numbers};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use other::Native;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::Native;

/// The general-purpose registers of a thread.
pub(crate) type Registers = <Native as Architecture>::Registers;

impl<R> Interrupted<R> {
    /// Whether the call ended only because of the stop and did nothing, so that it can be made
    /// again. The kernel repeats most calls by itself. Those that it does not are in
    /// [`Architecture::GIVE_UP`] and [`Architecture::TIMED_ON_SOCKETS`] (signal(7), "Interruption
    /// of system calls and library functions by stop signals"). `is_socket` returns whether a file
    /// descriptor is a socket.
    pub(crate) fn did_nothing(&self, is_socket: impl Fn(u64) -> bool) -> bool {
        let among = |calls: &[c_long]| {
            let mut numbers = calls.iter().map(|call| u64::try_from(*call));
            numbers.any(|number| number == Ok(self.number))
        };
        among(Native::GIVE_UP) || among(Native::TIMED_ON_SOCKETS) && is_socket(self.first)
    }
}
