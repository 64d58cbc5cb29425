//! All that promotion knows of an architecture.

use std::io;

use hugetext_host::Tid;
use libc::c_long;

use crate::waiting::WaitingCall;

/// An architecture on which a stopped thread can be made to call the kernel.
pub(crate) trait Architecture {
    /// The general-purpose registers of a thread.
    type Registers: Copy;

    /// Whether promotion knows this architecture.
    const SUPPORTED: bool = true;
    /// Whether there is [`Architecture::code`], and [`Architecture::restarted`].
    const ENDS_ALONE: bool = false;
    /// The instruction that makes a system call.
    const SYSCALL: &'static [u8];
    /// The number of mmap(2).
    const MMAP: c_long;
    /// The alignment of instructions, in bytes.
    const INSTRUCTION_ALIGNMENT: usize;
    /// Bytes that trap wherever they are executed.
    const TRAP: &'static [u8];
    /// The instruction that the kernel writes for a uprobe.
    const UPROBE: &'static [u8];
    /// Calls that wait and end with EINTR although no handler ran, and can be made again.
    /// io_uring_enter does so only if it submitted nothing.
    const GIVE_UP: &'static [c_long];
    /// Calls that end with EINTR on a socket with SO_RCVTIMEO or SO_SNDTIMEO (sock_intr_errno() of
    /// include/net/sock.h), and can be made again. A call that has transferred at least one byte
    /// returns the number of bytes instead. connect(), made again, waits for the connection that it
    /// has already begun.
    const TIMED_ON_SOCKETS: &'static [c_long];

    /// Reads the registers of a stopped thread.
    fn registers(tid: Tid) -> io::Result<Self::Registers>;

    /// Sets the registers of a stopped thread.
    fn set_registers(tid: Tid, regs: &Self::Registers) -> io::Result<()>;

    /// Lets a thread that stopped at the entry of a system call, with the registers `entry`, leave
    /// the call without making it.
    fn skip_call(tid: Tid, entry: &Self::Registers) -> io::Result<()>;

    /// Sets the number of the system call that the kernel believes a thread to be in, where the
    /// registers do not hold it. `None`: it is in none.
    fn set_call(tid: Tid, number: Option<u64>) -> io::Result<()>;

    /// Whether the thread runs 64-bit code of this architecture.
    fn is_native(regs: &Self::Registers) -> bool;

    /// The program counter.
    fn pc(regs: &Self::Registers) -> u64;

    /// The result of a system call that has just ended; an error is its negated number.
    fn result(regs: &Self::Registers) -> i64;

    /// The number of the system call at whose entry the thread stopped, and the address of the
    /// instruction.
    fn entered(entry: &Self::Registers) -> (u64, u64);

    /// Whether the kernel makes the thread restart the system call in which it was interrupted.
    /// `at_pc` are the bytes at its program counter.
    fn will_restart(regs: &Self::Registers, at_pc: [u8; 4]) -> bool;

    /// The state from which the thread makes system call `number` at `place`. The other registers
    /// are those of `stopped`.
    fn before_call(stopped: &Self::Registers, number: u64, place: u64) -> Self::Registers;

    /// As [`Architecture::before_call`], with arguments.
    fn call(
        from: &Self::Registers,
        number: u64,
        arguments: [u64; 6],
        place: u64,
    ) -> Self::Registers;

    /// A state in which the kernel restarts nothing by itself.
    fn settled(stopped: &Self::Registers) -> Self::Registers;

    /// The state from which a thread for which [`Architecture::will_restart`] holds makes its call again, by the
    /// instruction before its program counter. `None` where only the kernel knows the number of that call.
    fn restarted(stopped: &Self::Registers) -> Option<Self::Registers>;

    /// Code for a borrowed thread. It begins with [`Architecture::SYSCALL`], for the calls that the tracer wants. The
    /// rest is for the case that the tracer is gone: it closes the files of [`Numbers`], blocks the signals of `mask`
    /// alone, and continues with the registers `saved`, whatever a call has done to the registers. `None` where no
    /// instruction jumps without changing a register.
    fn code(saved: &Self::Registers, mask: u64) -> Option<Code>;

    /// The call in which a thread waits. `None` if it waits in none, or if the registers of a
    /// stopped thread have everything that [`Architecture::interrupted`] needs.
    fn waiting_call(tid: Tid) -> Option<WaitingCall>;

    /// If the thread's call just ended with EINTR: the call, and how the kernel can decide again
    /// how it ends. `before` is [`Architecture::waiting_call`] from before the thread was stopped.
    fn interrupted(
        tid: Tid,
        regs: &Self::Registers,
        before: Option<&WaitingCall>,
    ) -> Option<Interrupted<Self::Registers>>;
}

/// Where a page has the numbers of the files that a change has opened in the process: [`Numbers::COUNT`] C ints from
/// [`Numbers::FIRST`] on. -1 stands for none.
pub(crate) enum Numbers {}

impl Numbers {
    /// What precedes them is struct cmsghdr: the kernel itself writes the numbers of files that are passed.
    pub(crate) const FIRST: u32 = 16;
    pub(crate) const COUNT: u32 = 256;
}

/// See [`Architecture::code`].
pub(crate) struct Code {
    pub(crate) bytes: Vec<u8>,
    /// Where in `bytes` the address of the first of [`Numbers`] is; zero if there is no page with numbers.
    pub(crate) numbers: u64,
}

/// A system call that ended with EINTR.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupted<R> {
    /// Its number.
    pub(crate) number: u64,
    /// Its first argument.
    pub(crate) first: u64,
    pub(crate) decision: Decision<R>,
}

/// How the kernel decides again whether an interrupted call is restarted. It restarts the call
/// unless a handler is to run. In that case the call ends with EINTR (signal(7)). The kernel makes
/// this decision after the last signal that could arrive in between.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "no call is interrupted where nothing is promoted")
)]
pub(crate) enum Decision<R> {
    /// When the thread continues with these registers.
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "see Repeated"))]
    OnContinuing(R),
    /// The decision was made before the tracer saw the thread. It is made again only at the end of
    /// another call. The thread enters the same call from the registers `again`, is kept from making
    /// it, and ends it with the registers `ended`.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "see OnContinuing"))]
    Repeated { again: R, ended: R },
}
