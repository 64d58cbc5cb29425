//! Inspects a command's process at the very end of its life, while it still has all its mappings.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use super::id::Pid;

/// The signal of a stop at a system call (PTRACE_O_TRACESYSGOOD).
const SYSTEM_CALL: libc::c_int = libc::SIGTRAP | 0x80;

/// A command that runs under ptrace(2) without address space randomisation.
#[derive(Debug)]
pub struct Instance {
    pid: Pid,
}

impl Instance {
    /// Starts `command`, up to its first instruction. The calling thread becomes its tracer, and
    /// [`Instance::at_exit`] must be called on that thread. If the thread ends first, the kernel
    /// kills the command.
    pub fn start(command: &mut Command) -> io::Result<Instance> {
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let child: Child = command.spawn()?;
        let instance = Instance {
            pid: Pid::of_child(&child),
        };
        // The stop after exec. Only the end of the command can come before it.
        let status = instance.wait()?;
        if libc::WIFSTOPPED(status) {
            let options =
                libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
            instance.request(libc::PTRACE_SETOPTIONS as _, options as usize)?;
        }
        Ok(instance)
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the command run, calls `look` when its process begins to exit, and waits for it. `None`
    /// if the process was gone before `look` (killed while it was stopped).
    pub fn at_exit<T>(self, look: impl FnOnce(Pid) -> T) -> io::Result<(Option<T>, ExitStatus)> {
        self.run(libc::PTRACE_CONT as _, || {}, look)
    }

    /// As [`Instance::at_exit`], and counts the calls of mmap(2) for files. The command stops at
    /// every system call, so its time says nothing.
    pub fn at_exit_with_mmaps<T>(
        self,
        look: impl FnOnce(Pid) -> T,
    ) -> io::Result<(Option<(T, u64)>, ExitStatus)> {
        let pid = self.pid;
        let mut mmaps = 0;
        let (seen, status) = self.run(
            libc::PTRACE_SYSCALL as _,
            || mmaps += u64::from(enters_mmap_of_file(pid)),
            look,
        )?;
        Ok((seen.map(|seen| (seen, mmaps)), status))
    }

    /// `resume` is the request that continues the command. With PTRACE_SYSCALL, `called` runs
    /// before and after each system call.
    fn run<T>(
        self,
        resume: libc::c_uint,
        mut called: impl FnMut(),
        look: impl FnOnce(Pid) -> T,
    ) -> io::Result<(Option<T>, ExitStatus)> {
        let mut look = Some(look);
        let mut seen = None;
        let mut signal = 0;
        loop {
            match self.request(resume, signal) {
                // The command was killed while it was stopped; the wait reports that.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
            let status = self.wait()?;
            if !libc::WIFSTOPPED(status) {
                return Ok((seen, ExitStatus::from_raw(status)));
            }
            let exiting = status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8;
            if let Some(look) = look.take_if(|_| exiting) {
                seen = Some(look(self.pid));
            }
            // A trap is ptrace's own (the stop of an exec); other signals are delivered to the
            // command.
            signal = match libc::WSTOPSIG(status) {
                libc::SIGTRAP => 0,
                SYSTEM_CALL => {
                    called();
                    0
                }
                signal => signal as usize,
            };
        }
    }

    fn wait(&self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: the status is a live local; the child is this process's own and nobody else waits
        // for it, since the `Child` was dropped, which does not wait.
        while unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, 0) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(status)
    }

    fn request(&self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: the requests used here take a number as data and write nothing.
        match unsafe { libc::ptrace(request as _, self.pid.as_raw(), 0usize, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// `struct ptrace_syscall_info` at the entry of a call (ptrace(2), Linux 5.3).
#[repr(C)]
#[derive(Default)]
struct Call {
    /// PTRACE_SYSCALL_INFO_ENTRY is 1.
    at: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    number: u64,
    arguments: [u64; 6],
}

/// The call that maps files. On architectures of 32 bits, C libraries use that whose offset counts pages.
#[cfg(any(target_pointer_width = "64", target_arch = "x86_64"))]
const MMAP: libc::c_long = libc::SYS_mmap;
#[cfg(not(any(target_pointer_width = "64", target_arch = "x86_64")))]
const MMAP: libc::c_long = libc::SYS_mmap2;

impl Call {
    /// Whether it is the call that maps files. In a process of i386 on x86-64, and of 32-bit ARM on
    /// arm64, that is mmap2 (__NR_mmap2), too.
    fn is_mmap(&self) -> bool {
        /// __AUDIT_ARCH_64BIT.
        const WIDE: u32 = 0x8000_0000;
        const NARROW_MMAP: u64 = 192;
        let has_narrow = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if has_narrow && self.architecture & WIDE == 0 {
            self.number == NARROW_MMAP
        } else {
            self.number == MMAP as u64
        }
    }
}

/// The fifth argument of mmap(2): the file. On s390x, the only argument is the address of all six
/// (arch/s390/kernel/syscall.c).
fn mapped_file(pid: Pid, arguments: [u64; 6]) -> io::Result<u64> {
    let [first, .., fifth, _] = arguments;
    if !cfg!(target_arch = "s390x") {
        return Ok(fifth);
    }
    let mut word = [0; 8];
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    memory.read_exact_at(&mut word, first.saturating_add(4 * 8))?;
    Ok(u64::from_ne_bytes(word))
}

/// Whether the process is about to call mmap(2) with a file: one other than -1.
fn enters_mmap_of_file(pid: Pid) -> bool {
    const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
    let mut call = Call::default();
    let size = size_of::<Call>();
    // SAFETY: the kernel writes at most `size` bytes to `call`.
    let filled = unsafe { libc::ptrace(GET_SYSCALL_INFO as _, pid.as_raw(), size, &raw mut call) };
    filled > 0
        && call.at == 1
        && call.is_mmap()
        && mapped_file(pid, call.arguments).is_ok_and(|file| file as i32 >= 0)
}

fn prepare() -> io::Result<()> {
    // SAFETY: both calls take numbers and touch no memory of this process.
    let done = unsafe {
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0
            && libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::text_mappings;

    fn instance(script: &str) -> Option<Instance> {
        match Instance::start(Command::new("sh").args(["-c", script])) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!("skipped: ptrace is not permitted here");
                None
            }
            other => Some(other.unwrap()),
        }
    }

    #[test]
    fn sees_the_mappings_of_a_process_that_ends() {
        let look = |pid| {
            let text = text_mappings(pid).unwrap();
            let path = text.iter().find_map(|mapping| mapping.path.clone());
            (path, text.first().map(|mapping| mapping.addresses))
        };
        let Some(first) = instance("exit 3") else {
            return;
        };
        let (seen, status) = first.at_exit(look).unwrap();
        assert_eq!(status.code(), Some(3));
        let seen = seen.unwrap();
        assert!(seen.0.is_some());
        let Some(second) = instance("exit 3") else {
            return;
        };
        assert_eq!(
            second.at_exit(look).unwrap().0,
            Some(seen),
            "addresses are not random"
        );
    }

    #[test]
    fn counts_the_files_that_are_mapped() {
        let Some(instance) = instance("exit 3") else {
            return;
        };
        let (seen, status) = instance.at_exit_with_mmaps(|pid| pid).unwrap();
        assert_eq!(status.code(), Some(3));
        // libc, and perhaps more libraries, each with at least one call.
        let (_, mmaps) = seen.unwrap();
        assert!((1..1000).contains(&mmaps), "{mmaps}");
    }

    #[test]
    fn passes_signals_on_and_follows_exec() {
        let Some(instance) = instance("trap 'exec sh -c \"exit 7\"' USR1; kill -USR1 $$; exit 1")
        else {
            return;
        };
        let (seen, status) = instance.at_exit(|pid| pid).unwrap();
        assert!(seen.is_some());
        assert_eq!(status.code(), Some(7));
    }
}
