//! Why a process is not promoted.

use std::fs;
use std::io;

use hugetext_host::{ProcessError, Tid};

/// The reason why a process is not promoted.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// This program runs on an architecture whose registers promotion does not know.
    #[error("promotion knows the registers of x86-64 and arm64 only")]
    Architecture,
    /// It does not exist.
    #[error("no such process")]
    Gone,
    /// What /proc says under its number is about another process.
    #[error("/proc is that of another PID namespace: mount the one of this namespace")]
    ForeignProc,
    /// It is exiting, or it has exited and has not been reaped.
    #[error("exiting")]
    Exiting,
    /// Its first thread has ended while other threads run.
    #[error("its first thread has ended, so /proc does not say what the others map")]
    Headless,
    /// It executed another program, and the memory that was looked at is gone.
    #[error("it executed another program meanwhile; try again")]
    Executed,
    /// A kernel thread.
    #[error("a kernel thread: it maps no program")]
    KernelThread,
    /// The process that asks for the promotion.
    #[error("this process itself")]
    Own,
    /// Another process traces it already. A process has at most one tracer.
    #[error("traced by process {by}: end the debugger first")]
    Traced {
        /// The thread that traces it.
        by: Tid,
    },
    /// It is in another user namespace, where its credentials have another meaning.
    #[error("in another user namespace: promote it from inside its container")]
    UserNamespace,
    /// A seccomp filter might kill it for a call that promotion injects.
    #[error("under a seccomp filter, which may kill it for an injected call")]
    Seccomp,
    /// A 32-bit program, or a program of another instruction set under emulation.
    #[error("not a 64-bit program of this machine's own instruction set")]
    Foreign,
    /// A translator such as valgrind or qemu-user reads its text as data. The mapped text is never
    /// executed.
    #[error("run by {0}, which translates its text instead of executing it")]
    Translated(&'static str),
    /// prctl(PR_SET_THP_DISABLE) is set, so the kernel would not map a huge page.
    #[error(
        "it has transparent huge pages disabled (PR_SET_THP_DISABLE); only an option of its own and a \
         restart change that"
    )]
    ThpDisabled,
    /// The ptrace access check failed.
    #[error("not permitted: {remedy}")]
    Forbidden {
        /// The privilege to grant.
        remedy: String,
    },
    /// Its mappings cannot be listed.
    #[error(transparent)]
    Unlisted(ProcessError),
    /// /proc could not be read.
    #[error(transparent)]
    Io(io::Error),
}

impl From<ProcessError> for Refusal {
    /// Why the mappings of a process that was there a moment ago are not known.
    fn from(error: ProcessError) -> Refusal {
        match error {
            ProcessError::Gone | ProcessError::NoText => Refusal::Gone,
            error => Refusal::Unlisted(error),
        }
    }
}

impl From<io::Error> for Refusal {
    /// The meaning of an error of /proc or ptrace for the process.
    fn from(error: io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Refusal::Gone,
            Some(libc::EPERM | libc::EACCES) => Refusal::Forbidden {
                remedy: tracing_remedy(),
            },
            // /proc/PID/mem of memory that is given up (proc(5)).
            _ if error.kind() == io::ErrorKind::UnexpectedEof => Refusal::Executed,
            _ => Refusal::Io(error),
        }
    }
}

impl Refusal {
    /// Why a task with these flags has no memory. A process that ends gives it up before it becomes a zombie.
    pub(crate) fn without_memory(flags: u32) -> Refusal {
        /// include/linux/sched.h: "I am a kernel thread".
        const PF_KTHREAD: u32 = 0x0020_0000;
        if flags & PF_KTHREAD == 0 {
            Refusal::Exiting
        } else {
            Refusal::KernelThread
        }
    }
}

/// The privilege that ptrace needs (ptrace(2), PTRACE_MODE_ATTACH; Yama's ptrace_scope).
fn tracing_remedy() -> String {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "3" => "kernel.yama.ptrace_scope is 3, which forbids tracing until the next boot".into(),
        "1" | "2" => format!(
            "kernel.yama.ptrace_scope is {}; run as root, or grant CAP_SYS_PTRACE",
            scope.trim()
        ),
        _ => "run as the process's user or as root, or grant CAP_SYS_PTRACE".into(),
    }
}
