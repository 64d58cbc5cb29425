//! x86-64.

use std::io;

use hugetext_host::Tid;
use libc::c_long;
use nix::sys::ptrace;

use super::eintr::{EINTR, RESTART_UNLESS_HANDLED, TIMED_ON_SOCKETS};
use super::{Architecture, Decision, Interrupted};
use crate::waiting::WaitingCall;

/// The kernel's own codes for "restart this call" (include/linux/errno.h). A tracer sees them, but
/// the program never does.
const RESTARTS: [i64; 4] = [-512, RESTART_UNLESS_HANDLED, -513, -516];
/// __USER_CS (arch/x86/include/asm/segment.h): 64-bit code.
const USER_CS: u64 = 0x33;
/// The number from arch/x86/entry/syscalls/syscall_64.tbl. libc does not define it.
const SYS_IO_PGETEVENTS: c_long = 333;

/// This architecture.
pub(crate) enum Native {}

impl Architecture for Native {
    type Registers = libc::user_regs_struct;

    /// `syscall`
    const SYSCALL: &'static [u8] = &[0x0f, 0x05];
    const MMAP: c_long = libc::SYS_mmap;
    const INSTRUCTION_ALIGNMENT: usize = 1;
    /// `int3`
    const TRAP: &'static [u8] = &[0xcc];
    /// `int3` (UPROBE_SWBP_INSN, arch/x86/include/asm/uprobes.h)
    const UPROBE: &'static [u8] = &[0xcc];
    const GIVE_UP: &'static [c_long] = &[
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
    const TIMED_ON_SOCKETS: &'static [c_long] = TIMED_ON_SOCKETS;

    fn registers(tid: Tid) -> io::Result<Self::Registers> {
        Ok(ptrace::getregs(tid.into())?)
    }

    fn set_registers(tid: Tid, regs: &Self::Registers) -> io::Result<()> {
        Ok(ptrace::setregs(tid.into(), *regs)?)
    }

    fn skip_call(tid: Tid, entry: &Self::Registers) -> io::Result<()> {
        Self::set_registers(tid, &Self::settled(entry))
    }

    fn set_call(_tid: Tid, _number: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn is_native(regs: &Self::Registers) -> bool {
        regs.cs == USER_CS
    }

    fn pc(regs: &Self::Registers) -> u64 {
        regs.rip
    }

    fn result(regs: &Self::Registers) -> i64 {
        regs.rax.cast_signed()
    }

    fn entered(entry: &Self::Registers) -> (u64, u64) {
        (entry.orig_rax, entry.rip.wrapping_sub(2))
    }

    /// The kernel restarts the call when the thread continues (arch/x86/kernel/signal.c,
    /// arch_do_signal_or_restart()).
    fn will_restart(regs: &Self::Registers, _at_pc: [u8; 4]) -> bool {
        regs.orig_rax.cast_signed() >= 0 && RESTARTS.contains(&regs.rax.cast_signed())
    }

    fn before_call(stopped: &Self::Registers, number: u64, place: u64) -> Self::Registers {
        Self::Registers {
            rip: place,
            rax: number,
            orig_rax: u64::MAX,
            ..*stopped
        }
    }

    fn call(
        from: &Self::Registers,
        number: u64,
        arguments: [u64; 6],
        place: u64,
    ) -> Self::Registers {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        Self::Registers {
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..Self::before_call(from, number, place)
        }
    }

    fn settled(stopped: &Self::Registers) -> Self::Registers {
        Self::Registers {
            orig_rax: u64::MAX,
            ..*stopped
        }
    }

    fn waiting_call(_tid: Tid) -> Option<WaitingCall> {
        None
    }

    /// The kernel looks at the registers when the thread continues.
    fn interrupted(
        _tid: Tid,
        regs: &Self::Registers,
        _before: Option<&WaitingCall>,
    ) -> Option<Interrupted<Self::Registers>> {
        let ended = regs.rax.cast_signed() == EINTR && regs.orig_rax.cast_signed() >= 0;
        ended.then_some(Interrupted {
            number: regs.orig_rax,
            first: regs.rdi,
            decision: Decision::OnContinuing(Self::Registers {
                rax: RESTART_UNLESS_HANDLED.cast_unsigned(),
                ..*regs
            }),
        })
    }
}
