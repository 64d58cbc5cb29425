//! arm64.

use std::io;

use hugetext_host::Tid;
use libc::c_long;
use nix::sys::ptrace;

use super::{Architecture, Interrupted};
use crate::raw;

/// PSR_BTYPE_MASK: the kind of indirect branch that led to the instruction
/// (arch/arm64/include/uapi/asm/ptrace.h).
const BTYPE: u64 = 0xc00;
/// PSR_MODE32_BIT.
const MODE32: u64 = 0x10;
/// NT_ARM_SYSTEM_CALL (include/uapi/linux/elf.h).
const NT_ARM_SYSTEM_CALL: usize = 0x404;
/// The register with the number of a system call.
const NUMBER: usize = 8;

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
    const GIVE_UP: &'static [c_long] = &[];
    const TIMED_ON_SOCKETS: &'static [c_long] = &[];

    fn registers(tid: Tid) -> io::Result<Self::Registers> {
        Ok(ptrace::getregs(tid.into())?)
    }

    fn set_registers(tid: Tid, regs: &Self::Registers) -> io::Result<()> {
        Ok(ptrace::setregs(tid.into(), *regs)?)
    }

    fn skip_call(tid: Tid, _entry: &Self::Registers) -> io::Result<()> {
        Self::forget_call(tid)
    }

    fn forget_call(tid: Tid) -> io::Result<()> {
        raw::set_register_set(tid, NT_ARM_SYSTEM_CALL, -1i32)
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

    /// arm64 loses the first argument of a call that has ended, so the call cannot be made again.
    fn interrupted(_regs: &Self::Registers) -> Option<(Interrupted, Self::Registers)> {
        None
    }
}
