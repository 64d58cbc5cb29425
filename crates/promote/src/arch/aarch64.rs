//! arm64.

use std::io;

use hugetext_host::Tid;
use libc::c_long;
use nix::sys::ptrace;

use super::architecture::{Architecture, Code, Decision, Interrupted};
use super::eintr::{EINTR, RESTART_UNLESS_HANDLED, TIMED_ON_SOCKETS};
use crate::raw;
use crate::waiting::WaitingCall;

/// PSR_BTYPE_MASK: the kind of indirect branch that led to the instruction
/// (arch/arm64/include/uapi/asm/ptrace.h).
const BTYPE: u64 = 0xc00;
/// PSR_MODE32_BIT.
const MODE32: u64 = 0x10;
/// NT_ARM_SYSTEM_CALL (include/uapi/linux/elf.h).
const NT_ARM_SYSTEM_CALL: usize = 0x404;
/// The register with the number of a system call.
const NUMBER: usize = 8;
/// The number from include/uapi/asm-generic/unistd.h. libc does not define it.
const SYS_IO_PGETEVENTS: c_long = 292;

/// A call that waits with a mask of its own if an argument is not zero. That of io_uring_enter may
/// hold a mask.
struct Masked {
    number: c_long,
    argument: usize,
}

const MASKED: [Masked; 4] = [
    Masked::by(libc::SYS_epoll_pwait, 4),
    Masked::by(libc::SYS_epoll_pwait2, 4),
    Masked::by(SYS_IO_PGETEVENTS, 5),
    Masked::by(libc::SYS_io_uring_enter, 4),
];

impl Masked {
    const fn by(number: c_long, argument: usize) -> Masked {
        Masked { number, argument }
    }

    fn is(&self, call: &WaitingCall) -> bool {
        let value = call.arguments.get(self.argument);
        u64::try_from(self.number) == Ok(call.number) && value.is_some_and(|value| *value != 0)
    }
}

/// This architecture.
pub(crate) enum Native {}

impl Architecture for Native {
    type Registers = libc::user_regs_struct;

    /// `svc #0`
    const SYSCALL: &'static [u8] = &[0x01, 0x00, 0x00, 0xd4];
    const MMAP: c_long = libc::SYS_mmap;
    const INSTRUCTION_ALIGNMENT: usize = 4;
    /// `brk #0`
    const TRAP: &'static [u8] = &[0x00, 0x00, 0x20, 0xd4];
    /// `brk #5` (UPROBES_BRK_IMM, arch/arm64/include/asm/brk-imm.h)
    const UPROBE: &'static [u8] = &[0xa0, 0x00, 0x20, 0xd4];
    const GIVE_UP: &'static [c_long] = &[
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        SYS_IO_PGETEVENTS,
        libc::SYS_io_uring_enter,
    ];
    const TIMED_ON_SOCKETS: &'static [c_long] = TIMED_ON_SOCKETS;

    fn registers(tid: Tid) -> io::Result<Self::Registers> {
        Ok(ptrace::getregs(tid.into())?)
    }

    fn set_registers(tid: Tid, regs: &Self::Registers) -> io::Result<()> {
        Ok(ptrace::setregs(tid.into(), *regs)?)
    }

    fn skip_call(tid: Tid, _entry: &Self::Registers) -> io::Result<()> {
        Self::set_call(tid, None)
    }

    fn set_call(tid: Tid, number: Option<u64>) -> io::Result<()> {
        let number = number.and_then(|number| i32::try_from(number).ok());
        raw::set_register_set(tid, NT_ARM_SYSTEM_CALL, number.unwrap_or(-1))
    }

    fn is_native(regs: &Self::Registers) -> bool {
        regs.pstate & MODE32 == 0
    }

    fn pc(regs: &Self::Registers) -> u64 {
        regs.pc
    }

    fn result(regs: &Self::Registers) -> i64 {
        regs.regs[0].cast_signed()
    }

    fn entered(entry: &Self::Registers) -> (u64, u64) {
        (entry.regs[NUMBER], entry.pc.wrapping_sub(4))
    }

    /// The kernel has set the program counter back to the instruction before the tracer looks. It
    /// decides on the number of the restarted call when the thread continues
    /// (arch/arm64/kernel/signal.c, do_signal()). So a thread that is about to make its first call
    /// counts too.
    fn will_restart(_regs: &Self::Registers, at_pc: [u8; 4]) -> bool {
        at_pc == Self::SYSCALL
    }

    /// The number goes into x8. x0 already holds the first argument. A syscall stop hides x7, so x7
    /// is taken from the state before that stop.
    fn before_call(stopped: &Self::Registers, number: u64, place: u64) -> Self::Registers {
        let mut regs = Self::Registers {
            pc: place,
            ..*stopped
        };
        regs.regs[NUMBER] = number;
        regs
    }

    fn call(
        from: &Self::Registers,
        number: u64,
        arguments: [u64; 6],
        place: u64,
    ) -> Self::Registers {
        let mut regs = Self::before_call(from, number, place);
        regs.pstate &= !BTYPE;
        for (register, argument) in regs.regs.iter_mut().zip(arguments) {
            *register = argument;
        }
        regs
    }

    fn settled(stopped: &Self::Registers) -> Self::Registers {
        *stopped
    }

    /// A tracer cannot tell which code a call of the kernel ended with.
    fn restarted(_stopped: &Self::Registers) -> Option<Self::Registers> {
        None
    }

    /// Each branch to a far address takes it from a register.
    fn code(_saved: &Self::Registers, _mask: u64) -> Option<Code> {
        None
    }

    fn waiting_call(tid: Tid) -> Option<WaitingCall> {
        let call = WaitingCall::read(tid)?;
        match MASKED.iter().any(|masked| masked.is(&call)) {
            true => call.with_mask(tid),
            false => Some(call),
        }
    }

    /// do_signal() of arch/arm64/kernel/signal.c decides before the tracer sees the thread, and the
    /// result has replaced the first argument in x0. So only the look from before has it.
    ///
    /// The call may have ended because a handler ran since that look. For most calls the handler
    /// might as well have run just before the call, and nothing is lost if the call is made again.
    /// A call with a mask of its own admits signals that are blocked before it. After such a
    /// handler, that mask is no longer in force, and the call has to end.
    fn interrupted(
        tid: Tid,
        regs: &Self::Registers,
        before: Option<&WaitingCall>,
    ) -> Option<Interrupted<Self::Registers>> {
        let before = before.filter(|before| {
            Self::result(regs) == EINTR
                && regs.pc == before.pc
                && regs.regs[NUMBER] == before.number
                && before.mask_stands(tid)
        })?;
        let [first, ..] = before.arguments;
        let mut again = Self::Registers {
            pc: regs.pc.wrapping_sub(Self::SYSCALL.len() as u64),
            ..*regs
        };
        again.regs[0] = first;
        let mut ended = *regs;
        ended.regs[0] = RESTART_UNLESS_HANDLED.cast_unsigned();
        Some(Interrupted {
            number: before.number,
            first,
            decision: Decision::Repeated { again, ended },
        })
    }
}
