//! Makes a stopped thread call the kernel for this process.

use std::ffi::c_int;
use std::io;

use hugetext_host::Tid;
use nix::sys::ptrace;
use nix::sys::signal::Signal;

use crate::arch::{Architecture, Native, Registers};
use crate::error::SwapError;
use crate::event::{Event, OPTIONS};
use crate::raw;
use crate::refusal::Refusal;
use crate::target::Target;

/// Every signal is blocked. The kernel itself exempts SIGKILL and SIGSTOP.
const ALL_SIGNALS: u64 = u64::MAX;

/// One thread of a stopped process that makes system calls for this process.
///
/// Invariants, from [`Caller::borrow`] to drop: the thread blocks all signals, so that none is
/// delivered on foreign registers; between calls it is in a stop; `saved` are the registers with
/// which it continues as if nothing had happened. If it was interrupted in a call that the kernel
/// would restart, it has run to the entry of the restarted call, and that call was skipped: `saved`
/// then makes the call again, from its instruction, under the number that the kernel chose for the
/// restart (restart_syscall if only that knows how much time is left). None of the calls made here
/// touches the thread's restart block, which restart_syscall needs.
///
/// If this process is killed meanwhile, the thread's registers cannot be restored, and the kernel
/// kills the thread. Otherwise it would continue with the registers of a call that it never made.
pub(crate) struct Caller<'t> {
    target: &'t Target,
    tid: Tid,
    saved: Registers,
    mask: u64,
    /// Address of a system call instruction.
    place: u64,
    /// The call that the kernel believes the thread to be in when it continues.
    ending: Option<u64>,
}

/// How a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The kernel refused the call, and nothing changed.
    Refused(io::Error),
    /// The thread has ended, or did something unexpected.
    Lost(io::Error),
}

impl<'t> Caller<'t> {
    /// Borrows the most suitable of the stopped `threads` of `target`: one inside a system call, since it cannot be in an rseq
    /// critical section, otherwise one outside any critical section
    /// (Documentation/userspace-api/rseq.rst: the kernel forgets a critical section when it sees
    /// the thread outside of it, as it would here).
    pub(crate) fn borrow(
        target: &'t Target,
        threads: &[(Tid, Registers)],
        gadget: Option<u64>,
    ) -> Result<Caller<'t>, SwapError> {
        if threads.iter().any(|(_, regs)| !Native::is_native(regs)) {
            return Err(Refusal::Foreign.into());
        }
        let restarts = |regs: &Registers| {
            let mut instruction = [0; 4];
            let known = target.read(Native::pc(regs), &mut instruction).is_ok();
            Native::will_restart(regs, if known { instruction } else { [0; 4] })
        };
        let usable = |tid: &Tid| !raw::dispatches_syscalls(*tid);
        if let Some((tid, regs)) = threads
            .iter()
            .find(|(tid, regs)| restarts(regs) && usable(tid))
        {
            return Caller::from_restart(target, *tid, regs);
        }
        let outside = threads.iter().find(|(tid, regs)| {
            usable(tid) && !in_critical_section(target, *tid, Native::pc(regs))
        });
        let ((tid, regs), place) = outside.zip(gadget).ok_or(SwapError::NoThread)?;
        let mask = hold(*tid).map_err(SwapError::Trace)?;
        Ok(Caller {
            target,
            tid: *tid,
            saved: Native::settled(regs),
            mask,
            place,
            ending: None,
        })
    }

    fn from_restart(
        target: &'t Target,
        tid: Tid,
        stopped: &Registers,
    ) -> Result<Caller<'t>, SwapError> {
        let mask = hold(tid).map_err(SwapError::Trace)?;
        // If the run to the entry fails, dropping this value leaves the thread in its original
        // state.
        let mut caller = Caller {
            target,
            tid,
            saved: *stopped,
            mask,
            place: 0,
            ending: None,
        };
        caller.run_to_syscall_stop().map_err(SwapError::Trace)?;
        let entry = caller.registers().map_err(SwapError::Trace)?;
        let (number, place) = Native::entered(&entry);
        caller.saved = Native::before_call(stopped, number, place);
        caller.place = place;
        Native::skip_call(tid, &entry).map_err(SwapError::Trace)?;
        caller.run_to_syscall_stop().map_err(SwapError::Trace)?;
        Ok(caller)
    }

    /// Makes a stopped thread enter call `number` from the registers `again` and end it, without
    /// making it, with the registers `ended`. The thread then runs, and stops again before it
    /// executes another instruction.
    pub(crate) fn end_again(
        target: &'t Target,
        tid: Tid,
        number: u64,
        again: &Registers,
        ended: Registers,
    ) -> Result<(), SwapError> {
        Native::set_registers(tid, again).map_err(SwapError::Trace)?;
        let mut caller = Caller::from_restart(target, tid, again)?;
        caller.ending = Some(number);
        caller.saved = ended;
        drop(caller);
        ptrace::interrupt(tid.into()).map_err(|error| SwapError::Trace(error.into()))?;
        ptrace::cont(tid.into(), None).map_err(|error| SwapError::Trace(error.into()))
    }

    pub(crate) fn target(&self) -> &'t Target {
        self.target
    }

    pub(crate) fn tid(&self) -> Tid {
        self.tid
    }

    /// Makes the thread call the kernel.
    pub(crate) fn call(
        &mut self,
        number: libc::c_long,
        arguments: [u64; 6],
    ) -> Result<u64, CallError> {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let regs = Native::call(&self.saved, number, arguments, self.place);
        self.set_registers(&regs).map_err(CallError::Lost)?;
        self.run_to_syscall_stop().map_err(CallError::Lost)?;
        self.run_to_syscall_stop().map_err(CallError::Lost)?;
        let regs = self.registers().map_err(CallError::Lost)?;
        let after = self.place.wrapping_add(Native::SYSCALL.len() as u64);
        if Native::pc(&regs) != after {
            let strayed =
                io::Error::other("the borrowed thread did not stop at the requested call");
            return Err(CallError::Lost(strayed));
        }
        match Native::result(&regs) {
            result @ -4095..=-1 => Err(CallError::Refused(io::Error::from_raw_os_error(
                result.unsigned_abs() as i32,
            ))),
            result => Ok(result as u64),
        }
    }

    /// Runs the thread to the next entry or exit of a system call. If it reaches none in time, it
    /// is stopped, so that its registers can be restored.
    fn run_to_syscall_stop(&self) -> io::Result<()> {
        let mut pass_on = None;
        loop {
            ptrace::syscall(self.tid.into(), pass_on.take())?;
            let event = Event::wait(self.tid).inspect_err(|_| {
                if ptrace::interrupt(self.tid.into()).is_ok() {
                    let _ = Event::wait(self.tid);
                }
            });
            match event? {
                Event::Syscall => return Ok(()),
                // A group-stop, or the interruption requested earlier. It takes effect when the
                // process is released.
                Event::Stop => {}
                Event::Signal(libc::SIGSTOP) => pass_on = Some(Signal::SIGSTOP),
                Event::Signal(signal) => {
                    let text = format!("the borrowed thread got signal {signal}");
                    return Err(io::Error::other(text));
                }
                Event::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
    }

    fn registers(&self) -> io::Result<Registers> {
        Native::registers(self.tid)
    }

    fn set_registers(&self, regs: &Registers) -> io::Result<()> {
        Native::set_registers(self.tid, regs)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // A thread whose registers cannot be restored has been killed.
        let _ = self.set_registers(&self.saved);
        let _ = Native::set_call(self.tid, self.ending);
        let _ = raw::block_signals(self.tid, self.mask);
        let _ = ptrace::setoptions(self.tid.into(), OPTIONS);
    }
}

/// Blocks all signals of a thread and ties its life to this process. Returns the signals it blocked
/// before.
fn hold(tid: Tid) -> io::Result<u64> {
    let mask = raw::blocked_signals(tid)?;
    raw::block_signals(tid, ALL_SIGNALS)?;
    let options = OPTIONS | ptrace::Options::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace::setoptions(tid.into(), options) {
        let _ = raw::block_signals(tid, mask);
        return Err(error.into());
    }
    Ok(mask)
}

/// A C int in the form of an argument register.
pub(crate) fn bits(value: c_int) -> u64 {
    value.cast_unsigned().into()
}

/// Whether a thread that executes at `pc` is inside an rseq critical section: struct rseq and
/// struct rseq_cs of include/uapi/linux/rseq.h. If that is unknown, the answer is yes.
fn in_critical_section(target: &Target, tid: Tid, pc: u64) -> bool {
    const RSEQ_CS: u64 = 8;
    const START_IP: u64 = 8;
    const POST_COMMIT_OFFSET: u64 = 16;
    let word = |address: u64| {
        let mut bytes = [0; 8];
        target.read(address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    };
    let Some(rseq) = raw::rseq_address(tid) else {
        return false;
    };
    let inside = || {
        let section = word(rseq.checked_add(RSEQ_CS)?)?;
        if section == 0 {
            return Some(false);
        }
        let start = word(section.checked_add(START_IP)?)?;
        let len = word(section.checked_add(POST_COMMIT_OFFSET)?)?;
        Some(pc.wrapping_sub(start) < len)
    };
    inside().unwrap_or(true)
}
