//! How each architecture makes and restarts a system call.

/// The general-purpose registers of a thread.
pub(super) type Registers = libc::user_regs_struct;

/// A system call that ended with EINTR.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interrupted {
    /// Its number.
    pub(super) number: u64,
    /// Its first argument.
    pub(super) first: u64,
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Interrupted, Registers};

    const EINTR: i64 = -(libc::EINTR as i64);
    /// The kernel's own codes for "restart this call" (include/linux/errno.h). A tracer sees them,
    /// but the program never does.
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

    /// `syscall`
    pub(in super::super) const SYSCALL: &[u8] = &[0x0f, 0x05];
    /// Bytes that trap wherever they are executed: `int3`.
    pub(in super::super) const TRAP: &[u8] = &[0xcc];

    /// Whether the thread is about to restart the system call in which it was interrupted. The
    /// kernel does that when the thread continues (arch/x86/kernel/signal.c,
    /// arch_do_signal_or_restart()).
    pub(in super::super) fn will_restart(regs: &Registers, _at_pc: [u8; 4]) -> bool {
        regs.orig_rax as i64 >= 0 && RESTARTS.contains(&(regs.rax as i64))
    }

    /// The number of the system call at whose entry the thread stopped, and the address of the
    /// instruction.
    pub(in super::super) fn entered(regs: &Registers) -> (u64, u64) {
        (regs.orig_rax, regs.rip.wrapping_sub(2))
    }

    /// The state from which the thread makes system call `number` at `place`. The other registers
    /// are those of `stopped`.
    pub(in super::super) fn before_call(stopped: &Registers, number: u64, place: u64) -> Registers {
        Registers {
            rip: place,
            rax: number,
            orig_rax: u64::MAX,
            ..*stopped
        }
    }

    /// A state in which the kernel restarts nothing by itself.
    pub(in super::super) fn settled(stopped: &Registers) -> Registers {
        Registers {
            orig_rax: u64::MAX,
            ..*stopped
        }
    }

    /// The registers that make a system call with `arguments`.
    pub(in super::super) fn call(
        from: &Registers,
        number: u64,
        arguments: [u64; 6],
        place: u64,
    ) -> Registers {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        Registers {
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before_call(from, number, place)
        }
    }

    pub(in super::super) fn result(regs: &Registers) -> i64 {
        regs.rax as i64
    }

    pub(in super::super) fn pc(regs: &Registers) -> u64 {
        regs.rip
    }

    /// Whether the thread runs 64-bit code: __USER_CS (arch/x86/include/asm/segment.h).
    pub(in super::super) fn is_native(regs: &Registers) -> bool {
        regs.cs == 0x33
    }

    /// If the thread's call just ended with EINTR: the call, and registers with which the kernel
    /// decides again how the call ends. The kernel restarts the call unless a handler is to run.
    /// In that case the call ends with EINTR (signal(7)). The kernel makes this decision after the
    /// last signal that could arrive in between.
    pub(in super::super) fn interrupted(regs: &Registers) -> Option<(Interrupted, Registers)> {
        const RESTART_UNLESS_HANDLED: i64 = -514; // -ERESTARTNOHAND
        let ended = regs.rax as i64 == EINTR && regs.orig_rax as i64 >= 0;
        ended.then_some((
            Interrupted {
                number: regs.orig_rax,
                first: regs.rdi,
            },
            Registers {
                rax: RESTART_UNLESS_HANDLED as u64,
                ..*regs
            },
        ))
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Interrupted, Registers};

    /// `svc #0`
    pub(in super::super) const SYSCALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
    /// Bytes that trap wherever they are executed: `brk #0`.
    pub(in super::super) const TRAP: &[u8] = &[0x00, 0x00, 0x20, 0xd4];
    /// PSR_BTYPE_MASK: the kind of indirect branch that led to the instruction
    /// (arch/arm64/include/uapi/asm/ptrace.h).
    const BTYPE: u64 = 0xc00;

    /// Whether the thread is about to make or restart a system call. The kernel has set the
    /// program counter back to the instruction before the tracer looks. The kernel decides on the
    /// number of the restarted call when the thread continues (arch/arm64/kernel/signal.c,
    /// do_signal()).
    pub(in super::super) fn will_restart(_regs: &Registers, at_pc: [u8; 4]) -> bool {
        at_pc == SYSCALL
    }

    pub(in super::super) fn entered(regs: &Registers) -> (u64, u64) {
        (regs.regs[8], regs.pc.wrapping_sub(4))
    }

    /// The number goes into x8. x0 already holds the first argument. A syscall stop hides x7, so
    /// x7 is taken from the state before that stop.
    pub(in super::super) fn before_call(stopped: &Registers, number: u64, place: u64) -> Registers {
        let mut regs = Registers {
            pc: place,
            ..*stopped
        };
        regs.regs[8] = number;
        regs
    }

    pub(in super::super) fn settled(stopped: &Registers) -> Registers {
        *stopped
    }

    pub(in super::super) fn call(
        from: &Registers,
        number: u64,
        arguments: [u64; 6],
        place: u64,
    ) -> Registers {
        let mut regs = before_call(from, number, place);
        regs.pstate &= !BTYPE;
        for (register, argument) in regs.regs.iter_mut().zip(arguments) {
            *register = argument;
        }
        regs
    }

    pub(in super::super) fn result(regs: &Registers) -> i64 {
        regs.regs[0] as i64
    }

    pub(in super::super) fn pc(regs: &Registers) -> u64 {
        regs.pc
    }

    /// PSR_MODE32_BIT.
    pub(in super::super) fn is_native(regs: &Registers) -> bool {
        regs.pstate & 0x10 == 0
    }

    /// arm64 loses the first argument of a call that has ended, so the call cannot be made again.
    pub(in super::super) fn interrupted(_regs: &Registers) -> Option<(Interrupted, Registers)> {
        None
    }
}

pub(super) use arch::{
    SYSCALL, TRAP, before_call, call, entered, interrupted, is_native, pc, result, settled,
    will_restart,
};

impl Interrupted {
    /// Whether the call ended only because of the stop and did nothing, so that it can be made
    /// again. The kernel repeats most calls by itself. The calls listed below end with EINTR
    /// although no handler ran (signal(7), "Interruption of system calls and library functions by
    /// stop signals"). `is_socket` returns whether a file descriptor is a socket.
    pub(super) fn did_nothing(&self, is_socket: impl Fn(u64) -> bool) -> bool {
        let among = |calls: &[libc::c_long]| {
            calls
                .iter()
                .any(|call| u64::try_from(*call) == Ok(self.number))
        };
        among(&GIVE_UP) || among(&TIMED_ON_SOCKETS) && is_socket(self.first)
    }
}

/// The number from arch/x86/entry/syscalls/syscall_64.tbl. libc does not define it.
#[cfg(target_arch = "x86_64")]
const SYS_IO_PGETEVENTS: libc::c_long = 333;

/// Calls that wait and end with EINTR. io_uring_enter does so only if it submitted nothing.
#[cfg(target_arch = "x86_64")]
const GIVE_UP: [libc::c_long; 9] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    SYS_IO_PGETEVENTS,
    libc::SYS_io_uring_enter,
];
#[cfg(not(target_arch = "x86_64"))]
const GIVE_UP: [libc::c_long; 0] = [];

/// Calls that end with EINTR on a socket with SO_RCVTIMEO or SO_SNDTIMEO (sock_intr_errno() of
/// include/net/sock.h). A call that has transferred at least one byte returns the number of bytes
/// instead. connect(), made again, waits for the connection that it has already begun.
#[cfg(target_arch = "x86_64")]
const TIMED_ON_SOCKETS: [libc::c_long; 13] = [
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
#[cfg(not(target_arch = "x86_64"))]
const TIMED_ON_SOCKETS: [libc::c_long; 0] = [];
