//! Makes a stopped thread call the kernel for this process.

use std::ffi::c_int;
use std::io;

use hugetext_host::Tid;
use hugetext_leaf::Span;
use nix::sys::ptrace;
use nix::sys::signal::Signal;

use crate::arch::{Architecture, Native, Registers};
use crate::error::SwapError;
use crate::event::{Event, OPTIONS};
use crate::maps::{find_gadget, find_vdso, is_gadget};
use crate::raw;
use crate::refusal::Refusal;
use crate::room::Placed;
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
/// This process may be killed at any moment. The thread then continues with the registers that it has, so these
/// lead back to `saved` at each moment: a call returns into [`Architecture::code`], which does the rest without a
/// tracer. Where an architecture has no such code, the kernel kills the thread.
pub(crate) struct Caller<'t> {
    target: &'t Target,
    tid: Tid,
    saved: Registers,
    mask: u64,
    /// Address of a system call instruction.
    place: u64,
    /// The call that the kernel believes the thread to be in when it continues.
    ending: Option<u64>,
    /// The code that `place` is in, if it is [`Architecture::code`].
    code: Option<Placed>,
}

/// Where a borrowed thread makes its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// In code that is written behind the vDSO, which is here.
    Vdso(Option<Span>),
    /// By an instruction of the process, if it has one.
    Gadget(Option<u64>),
}

impl Place {
    pub(crate) fn find(target: &Target) -> io::Result<Place> {
        if Native::ENDS_ALONE {
            find_vdso(target).map(Place::Vdso)
        } else {
            find_gadget(target).map(Place::Gadget)
        }
    }
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
        place: Place,
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
        let in_call = threads
            .iter()
            .find(|(tid, regs)| restarts(regs) && usable(tid));
        let computes = || {
            let outside = |(tid, regs): &&(Tid, Registers)| {
                usable(tid)
                    && !restarts(regs)
                    && !in_critical_section(target, *tid, Native::pc(regs))
            };
            threads.iter().find(outside).ok_or(SwapError::NoThread)
        };
        match (place, in_call) {
            (Place::Vdso(vdso), in_call) => {
                let again = in_call.and_then(|(tid, regs)| Some((*tid, Native::restarted(regs)?)));
                let (tid, saved) = match again.filter(|(_, saved)| is_call(target, saved)) {
                    Some(found) => found,
                    None => computes().map(|(tid, regs)| (*tid, Native::settled(regs)))?,
                };
                Caller::with_code(target, tid, saved, vdso.ok_or(SwapError::NoRoom)?)
            }
            (Place::Gadget(_), Some((tid, regs))) => Caller::from_restart(target, *tid, regs),
            (Place::Gadget(gadget), None) => {
                let (tid, regs) = computes()?;
                let place = gadget.filter(|address| is_gadget(target, *address));
                let place = place.ok_or(SwapError::NoThread)?;
                Ok(Caller {
                    mask: hold(*tid).map_err(SwapError::Trace)?,
                    target,
                    tid: *tid,
                    saved: Native::settled(regs),
                    place,
                    ending: None,
                    code: None,
                })
            }
        }
    }

    /// Borrows a thread that continues with `saved`, whatever becomes of this process.
    fn with_code(
        target: &'t Target,
        tid: Tid,
        saved: Registers,
        vdso: Span,
    ) -> Result<Caller<'t>, SwapError> {
        let mask = raw::blocked_signals(tid).map_err(SwapError::Trace)?;
        let code = Native::code(&saved, mask).ok_or(SwapError::NoThread)?;
        let code = Placed::new(target, tid, vdso, &code)?;
        let caller = Caller {
            target,
            tid,
            saved,
            mask,
            place: code.at(),
            ending: None,
            code: Some(code),
        };
        // The code comes first, then the way to it, then the signals that only it admits again.
        let to_code = Native::call(&saved, 0, [0; 6], caller.behind_call());
        caller.set_registers(&to_code).map_err(SwapError::Trace)?;
        raw::block_signals(tid, ALL_SIGNALS).map_err(SwapError::Trace)?;
        Ok(caller)
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
            code: None,
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

    /// Tells the thread the address of the [`Numbers`](crate::arch::Numbers) of files; zero if there are none any more.
    pub(crate) fn know_numbers(&self, address: u64) -> io::Result<()> {
        match &self.code {
            Some(code) => code.set_numbers(self.tid, address),
            None => Ok(()),
        }
    }

    /// The address of what follows the instruction that calls the kernel.
    fn behind_call(&self) -> u64 {
        self.place.wrapping_add(Native::SYSCALL.len() as u64)
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
        if Native::pc(&regs) != self.behind_call() {
            let strayed =
                io::Error::other("the borrowed thread did not stop at the requested call");
            return Err(CallError::Lost(strayed));
        }
        answer(&regs).map_err(CallError::Refused)
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
        // A thread whose registers cannot be restored has been killed. Only the code admits signals again by itself,
        // so the registers that lead to it are the last to go.
        let _ = raw::block_signals(self.tid, self.mask);
        let _ = self.set_registers(&self.saved);
        let _ = Native::set_call(self.tid, self.ending);
        match &self.code {
            Some(code) => code.erase(self.tid),
            None => {
                let _ = ptrace::setoptions(self.tid.into(), OPTIONS);
            }
        }
    }
}

/// Whether the next instruction of a thread calls the kernel as this architecture does. There are others, for programs
/// of 32 bits.
fn is_call(target: &Target, regs: &Registers) -> bool {
    let mut there = [0; 4];
    let there = there.get_mut(..Native::SYSCALL.len());
    there.is_some_and(|there| {
        target.read(Native::pc(regs), there).is_ok() && there == Native::SYSCALL
    })
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

/// The result of a system call that has just ended.
pub(crate) fn answer(regs: &Registers) -> io::Result<u64> {
    match Native::result(regs) {
        result @ -4095..=-1 => Err(io::Error::from_raw_os_error(result.unsigned_abs() as i32)),
        result => Ok(result as u64),
    }
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
