//! x86-64.

use std::io;

use hugetext_host::Tid;
use libc::c_long;
use nix::sys::ptrace;

use super::architecture::{Architecture, Code, Decision, Interrupted, Numbers};
use super::eintr::{EINTR, RESTART_UNLESS_HANDLED, TIMED_ON_SOCKETS};
use crate::waiting::WaitingCall;

/// The kernel's own codes for "restart this call" (include/linux/errno.h). A tracer sees them, but
/// the program never does.
const RESTARTS: [i64; 4] = [-512, RESTART_UNLESS_HANDLED, -513, RESTART_BLOCK];
/// ERESTART_RESTARTBLOCK: "restart this call, for the time that is left".
const RESTART_BLOCK: i64 = -516;
/// The bit of calls that take 32-bit pointers (arch/x86/include/uapi/asm/unistd.h, __X32_SYSCALL_BIT).
const X32: u64 = 0x4000_0000;
/// __USER_CS (arch/x86/include/asm/segment.h): 64-bit code.
const USER_CS: u64 = 0x33;
/// The number from arch/x86/entry/syscalls/syscall_64.tbl. libc does not define it.
const SYS_IO_PGETEVENTS: c_long = 333;

/// This architecture.
pub(crate) enum Native {}

impl Architecture for Native {
    type Registers = libc::user_regs_struct;

    const ENDS_ALONE: bool = true;
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

    /// As handle_signal() and arch_do_signal_or_restart() of arch/x86/kernel/signal.c do it.
    fn restarted(stopped: &Self::Registers) -> Option<Self::Registers> {
        let number = match stopped.rax.cast_signed() {
            RESTART_BLOCK => libc::SYS_restart_syscall.unsigned_abs() | stopped.orig_rax & X32,
            _ => stopped.orig_rax,
        };
        let instruction = stopped.rip.wrapping_sub(Self::SYSCALL.len() as u64);
        Some(Self::before_call(stopped, number, instruction))
    }

    fn code(saved: &Self::Registers, mask: u64) -> Option<Code> {
        Some(code(saved, mask))
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

/// See [`Architecture::code`]. No instruction changes the flags or the stack pointer: behind the call that admits
/// signals, one may be handled anywhere. Registers that are not loaded are those that no system call changes.
fn code(saved: &libc::user_regs_struct, mask: u64) -> Code {
    let close = close_all();
    let begin = [
        Native::SYSCALL,
        &load(8, 0),                // the address of the numbers
        &[0x4c, 0x89, 0xc1],        // mov rcx, r8
        &[0xe3, close.len() as u8], // jrcxz, behind what closes
    ]
    .concat();
    let registers = [
        load(0, saved.rax),
        load(1, saved.rcx),
        load(2, saved.rdx),
        load(6, saved.rsi),
        load(7, saved.rdi),
        load(8, saved.r8),
        load(9, saved.r9),
        load(10, saved.r10),
        load(11, saved.r11),
    ]
    .concat();
    let go_on = [0xff, 0x25, 0x08, 0x00, 0x00, 0x00]; // jmp [rip + 8]
    let admit = [
        &[0xba, 0x00, 0x00, 0x00, 0x00][..],   // mov edx, 0
        &[0x41, 0xba, 0x08, 0x00, 0x00, 0x00], // mov r10d, 8
        &[0xbf, 0x02, 0x00, 0x00, 0x00],       // mov edi, SIG_SETMASK
        &[0xb8, 0x0e, 0x00, 0x00, 0x00],       // mov eax, SYS_rt_sigprocmask
        &[0x48, 0x8d, 0x35],                   // lea rsi, what lies behind all instructions
        &((Native::SYSCALL.len() + registers.len() + go_on.len()) as u32).to_le_bytes(),
        Native::SYSCALL,
    ]
    .concat();
    let data = [mask.to_le_bytes(), saved.rip.to_le_bytes()].concat();
    Code {
        bytes: [begin, close, admit, registers, go_on.to_vec(), data].concat(),
        numbers: Native::SYSCALL.len() as u64 + 2,
    }
}

/// Closes all files whose numbers begin at r8, and unmaps the page of the numbers. A call of close(2) with -1 does
/// nothing.
fn close_all() -> Vec<u8> {
    let page = rustix::param::page_size() as u32;
    let back = Numbers::FIRST
        .wrapping_add(4 * Numbers::COUNT)
        .wrapping_neg();
    let one = [
        &[0x41, 0x8b, 0x38][..],         // mov edi, [r8]
        &[0x4d, 0x8d, 0x40, 0x04],       // lea r8, [r8 + 4]
        &[0xb8, 0x03, 0x00, 0x00, 0x00], // mov eax, SYS_close
        Native::SYSCALL,
        &[0x4d, 0x8d, 0x49, 0xff], // lea r9, [r9 - 1]
        &[0x4c, 0x89, 0xc9],       // mov rcx, r9
        &[0xe3, 0x02],             // jrcxz, behind the next instruction
    ]
    .concat();
    let again = (one.len() as u8 + 2).wrapping_neg();
    [
        &[0x41, 0xb9][..],
        &Numbers::COUNT.to_le_bytes(), // mov r9d, their count
        &one,
        &[0xeb, again], // jmp, to the first instruction of these
        &[0x49, 0x8d, 0xb8],
        &back.to_le_bytes(), // lea rdi, [r8 + back]
        &[0xbe],
        &page.to_le_bytes(),             // mov esi, page
        &[0xb8, 0x0b, 0x00, 0x00, 0x00], // mov eax, SYS_munmap
        Native::SYSCALL,
    ]
    .concat()
}

/// `movabs` of a value to a register.
fn load(register: u8, value: u64) -> [u8; 10] {
    // REX.W, and REX.B for the upper registers.
    let [low, rest @ ..] = value.to_le_bytes();
    let mut instruction = [
        0x48 | register >> 3,
        0xb8 | register & 7,
        low,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    if let Some(operand) = instruction.get_mut(3..) {
        operand.copy_from_slice(&rest);
    }
    instruction
}
