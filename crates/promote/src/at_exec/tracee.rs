//! The process that becomes a program, as its tracer sees it.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hugetext_host::{Ready, Tid, parse_mappings};
use nix::sys::ptrace;
use procfs::process::MMapPath;
use rustix::process::{Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use super::plan::{Arrangement, Step};
use super::stack::{Parts, lies_in_image, words};
use crate::arch::{Architecture, Native, Registers};
use crate::call::{answer, bits};
use crate::event::{Event, OPTIONS};
use crate::maps::system_call_in;
use crate::raw::{self, SET_MM, SET_MM_MAP};

/// What is written below the stack pointer of a new program: first the parts, then the vector or a path.
const SECOND: u64 = 256;
/// The most pointers that a program is given. MAX_ARG_STRINGS is larger, but nobody would wait for it.
const MOST_POINTERS: u64 = 1 << 20;

/// Lets a tracer wait until the process executes a program. `ready` is told that it waits. Returns false if the process ended
/// first. Signals and stops take effect as without a tracer.
pub(super) fn wait_for_exec(tid: Tid, ready: &Ready) -> io::Result<bool> {
    // The process that prepares the program is the first to be killed where memory is short. The program must not be, and it is
    // killed with its tracer.
    let _ = fs::read(format!("/proc/{tid}/oom_score_adj"))
        .and_then(|own| fs::write("/proc/self/oom_score_adj", own));
    let options = ptrace::Options::PTRACE_O_TRACEEXEC | OPTIONS;
    ptrace::seize(tid.into(), options)?;
    ready.tell();
    loop {
        let status = wait(tid)?;
        let Some(signal) = status.stopping_signal() else {
            return Ok(false);
        };
        match status.as_raw() >> 16 {
            libc::PTRACE_EVENT_EXEC => return Ok(true),
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => raw::listen(tid)?,
            0 => raw::deliver(tid, signal)?,
            _ => ptrace::cont(tid.into(), None)?,
        }
    }
}

fn wait(tid: Tid) -> io::Result<WaitStatus> {
    loop {
        match waitpid(Some(tid.into()), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A program that is stopped and traced. When this value is dropped, it runs, untraced, and takes the signals that were sent
/// meanwhile.
struct Stopped {
    tid: Tid,
    mask: u64,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = raw::block_signals(self.tid, self.mask);
        // One that is detached is not killed when this process ends.
        let _ = ptrace::detach(self.tid.into(), None);
    }
}

/// A program between its execve(2) and its first instruction. When this value is dropped, the program begins.
///
/// Invariants: it blocks all signals, so that none is delivered on foreign registers, and it is killed if this process is.
/// `saved` are the registers with which it begins.
pub(super) struct Tracee {
    saved: Registers,
    /// Address of a system call instruction, in the vDSO.
    place: u64,
    /// Memory of the program that nobody uses yet.
    scratch: u64,
    stopped: Stopped,
}

impl Tracee {
    /// The process is in PTRACE_EVENT_EXEC.
    pub(super) fn begin(tid: Tid, parts: &Parts) -> io::Result<Tracee> {
        let place = parts.vdso()?.wrapping_add(system_call_in_vdso()?);
        let stopped = Stopped {
            tid,
            mask: raw::blocked_signals(tid)?,
        };
        ptrace::setoptions(tid.into(), OPTIONS | ptrace::Options::PTRACE_O_EXITKILL)?;
        raw::block_signals(tid, u64::MAX)?;
        // The end of execve(2).
        to_system_call_stop(tid)?;
        let saved = Native::settled(&Native::registers(tid)?);
        if !Native::is_native(&saved) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Tracee {
            saved,
            place,
            scratch: parts.scratch(),
            stopped,
        })
    }

    pub(super) fn tid(&self) -> Tid {
        self.stopped.tid
    }

    /// Ends the program with this exit status.
    pub(super) fn end(self, status: u8) {
        let _ = self.call(libc::SYS_exit_group, [u64::from(status), 0, 0, 0, 0, 0]);
    }

    /// Kills the program.
    pub(super) fn kill(self) {
        let _ = kill_process(self.tid().into(), Signal::KILL);
    }

    fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<u64> {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let regs = Native::call(&self.saved, number, arguments, self.place);
        Native::set_registers(self.tid(), &regs)?;
        to_system_call_stop(self.tid())?;
        to_system_call_stop(self.tid())?;
        answer(&Native::registers(self.tid())?)
    }

    fn word(&self, address: u64) -> io::Result<u64> {
        Ok(ptrace::read(self.tid().into(), address as *mut c_void)?.cast_unsigned())
    }

    fn set_word(&self, address: u64, word: u64) -> io::Result<()> {
        Ok(ptrace::write(
            self.tid().into(),
            address as *mut c_void,
            word.cast_signed(),
        )?)
    }

    fn set_words(&self, address: u64, words: &[u64]) -> io::Result<()> {
        for (index, word) in (0..).zip(words) {
            self.set_word(address.wrapping_add(8 * index), *word)?;
        }
        Ok(())
    }

    /// Opens a file to read; returns its descriptor.
    pub(super) fn open(&self, path: &Path) -> io::Result<u64> {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        if bytes.len() >= libc::PATH_MAX as usize {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
        self.set_words(self.scratch, &words(&bytes))?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY;
        let arguments = [bits(libc::AT_FDCWD), self.scratch, bits(flags), 0, 0, 0];
        self.call(libc::SYS_openat, arguments)
    }

    /// Closes a descriptor.
    pub(super) fn close(&self, descriptor: u64) {
        let _ = self.call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
    }

    /// Brings a part of the image to its new place. Text stays at the old one, too.
    pub(super) fn take(&self, step: &Step, text: u64) -> io::Result<()> {
        let at = match *step {
            Step::Map {
                to, perms, offset, ..
            } => {
                let read = if perms.read { libc::PROT_READ } else { 0 };
                let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
                let prot = bits(read | libc::PROT_EXEC);
                let place = [to.start, to.len(), prot, bits(flags), text, offset];
                (self.call(Native::MMAP, place)?, to)
            }
            Step::Move { from, to } => (self.remap(from.start, to.len(), to.start)?, to),
        };
        // Before Linux 4.17, MAP_FIXED_NOREPLACE is only a hint.
        match at {
            (found, to) if found == to.start => Ok(()),
            (found, to) => {
                let _ = self.call(libc::SYS_munmap, [found, to.len(), 0, 0, 0, 0]);
                Err(io::ErrorKind::AddrInUse.into())
            }
        }
    }

    fn remap(&self, from: u64, len: u64, to: u64) -> io::Result<u64> {
        let flags = bits(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        self.call(libc::SYS_mremap, [from, len, len, flags, to, 0])
    }

    /// Takes the text away from its old place.
    pub(super) fn unmap(&self, arrangement: &Arrangement) {
        for step in &arrangement.steps {
            if let Step::Map { from, .. } = step {
                let _ = self.call(libc::SYS_munmap, [from.start, from.len(), 0, 0, 0, 0]);
            }
        }
    }

    /// Brings a part of the image back to its old place.
    pub(super) fn take_back(&self, step: &Step) -> io::Result<()> {
        match *step {
            Step::Map { to, .. } => {
                self.call(libc::SYS_munmap, [to.start, to.len(), 0, 0, 0, 0])?;
            }
            Step::Move { from, to } => {
                self.remap(to.start, to.len(), from.start)?;
            }
        }
        Ok(())
    }

    /// The address of the auxiliary vector on the stack, which the loader reads, if it is the vector of these parts.
    pub(super) fn auxiliary_vector(&self, parts: &Parts) -> io::Result<u64> {
        let at = self.end_of_environment(parts.start_stack)?;
        for (index, [_, value]) in (0..).zip(&parts.auxiliary) {
            if self.word(value_at(at, index))? != *value {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(at)
    }

    /// The stack of a new program: the number of arguments, pointers to them, 0, pointers to the environment, 0, the vector
    /// (System V ABI, process initialization).
    fn end_of_environment(&self, stack: u64) -> io::Result<u64> {
        let at = |index: u64| stack.wrapping_add(index.saturating_mul(8));
        let environment = self.word(at(0))?.saturating_add(2);
        for index in environment..environment.saturating_add(MOST_POINTERS) {
            if self.word(at(index))? == 0 {
                return Ok(at(index.saturating_add(1)));
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Writes where the image lies into the vector at `at`.
    pub(super) fn set_auxiliary_vector(&self, at: u64, parts: &Parts) -> io::Result<()> {
        for (index, [key, value]) in (0..).zip(&parts.auxiliary) {
            if lies_in_image(*key) {
                self.set_word(value_at(at, index), *value)?;
            }
        }
        Ok(())
    }

    /// Tells the kernel where the parts of the program lie.
    pub(super) fn set_parts(&self, parts: &Parts) -> io::Result<()> {
        let vector_at = self.scratch.wrapping_add(SECOND);
        let (map, vector) = parts.as_map(vector_at);
        self.set_words(self.scratch, &map)?;
        self.set_words(vector_at, &vector)?;
        let len = (map.len() as u64).saturating_mul(8);
        let arguments = [SET_MM, SET_MM_MAP, self.scratch, len, 0, 0];
        self.call(libc::SYS_prctl, arguments).map(drop)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = Native::set_registers(self.tid(), &self.saved);
    }
}

/// The address of the value of an entry of the vector at `at`.
fn value_at(at: u64, index: u64) -> u64 {
    at.wrapping_add(index.saturating_mul(16).saturating_add(8))
}

/// Runs a thread that blocks all signals to the next entry or exit of a system call.
fn to_system_call_stop(tid: Tid) -> io::Result<()> {
    let mut pass_on = None;
    loop {
        ptrace::syscall(tid.into(), pass_on.take())?;
        match Event::next(tid)? {
            Event::Syscall => return Ok(()),
            // It takes effect when the program is let go. No process can block SIGSTOP.
            Event::Stop => {}
            Event::Signal(libc::SIGSTOP) => pass_on = Some(nix::sys::signal::Signal::SIGSTOP),
            Event::Signal(signal) => return Err(io::Error::other(format!("signal {signal}"))),
            Event::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

/// How far behind the beginning of the vDSO a system call instruction lies. All processes have the same vDSO, at different
/// addresses.
fn system_call_in_vdso() -> io::Result<u64> {
    let maps = parse_mappings(&fs::read("/proc/self/maps")?)?;
    let vdso = maps
        .iter()
        .find(|map| matches!(map.pathname, MMapPath::Vdso));
    let (start, end) = vdso.ok_or(io::ErrorKind::Unsupported)?.address;
    let mut code = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
    File::open("/proc/self/mem")?.read_exact_at(&mut code, start)?;
    system_call_in(&code).ok_or_else(|| io::ErrorKind::Unsupported.into())
}
