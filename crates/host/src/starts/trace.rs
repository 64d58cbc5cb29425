//! Watches which programs a command executes. The command stops only when processes begin, execute
//! and, on request, end (ptrace(2)).

use std::collections::HashSet;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use libc::c_int;

use super::moment::{Interest, Moment};
use crate::processes::{Forward, Pid, Tid};

/// Options of every tracee: its children and threads are traced from their first instruction.
const FOLLOW: c_int = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

/// Runs `command` and tells `seen` what it and its descendants execute. A process that is
/// [`Interest::Own`] is detached, with the processes that it starts from then on. Returns when the
/// command itself has ended; descendants that live on continue untraced.
pub(crate) fn trace(
    command: &mut Command,
    mut seen: impl FnMut(Moment) -> Interest,
) -> io::Result<ExitStatus> {
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(trace_me) };
    let (child, _forward) = Forward::spawn(command)?;
    let root = Pid::of_child(&child).first_thread();
    let mut watch = Watch {
        root,
        ends: HashSet::new(),
    };
    if let Some(status) = watch.seize()? {
        return Ok(ExitStatus::from_raw(status));
    }
    let traced = watch.executed(root, &mut seen);
    watch.wake(traced)?;
    loop {
        let (tid, status) = wait(None)?;
        if !libc::WIFSTOPPED(status) {
            watch.ends.remove(&tid);
            if tid == root {
                return Ok(ExitStatus::from_raw(status));
            }
            continue;
        }
        watch.stopped(tid, status, &mut seen);
    }
}

struct Watch {
    /// The first thread of the command.
    root: Tid,
    /// The first threads of the processes whose exit is of interest.
    ends: HashSet<Tid>,
}

impl Watch {
    /// Changes the tracing of the command, which is stopped at its first instruction, from
    /// PTRACE_TRACEME to PTRACE_SEIZE, because job control works only with the latter: the command
    /// is detached in a stop and attached again. Returns the status if it ended meanwhile.
    fn seize(&self) -> io::Result<Option<c_int>> {
        let (_, status) = wait(Some(self.root))?;
        if !libc::WIFSTOPPED(status) {
            return Ok(Some(status));
        }
        request(libc::PTRACE_DETACH, self.root, libc::SIGSTOP as usize)?;
        request(libc::PTRACE_SEIZE, self.root, FOLLOW as usize)?;
        let (_, status) = wait(Some(self.root))?;
        Ok((!libc::WIFSTOPPED(status)).then_some(status))
    }

    /// Ends the stop in which [`Watch::seize`] leaves the command, whether it is still `traced` or not.
    fn wake(&self, traced: bool) -> io::Result<()> {
        // SAFETY: the call takes numbers; the process is this one's child and not yet waited for.
        if unsafe { libc::kill(self.root.as_raw(), libc::SIGCONT) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if traced {
            request(libc::PTRACE_CONT, self.root, 0)
        } else {
            Ok(())
        }
    }

    /// Handles a stop and continues the process. If the process was killed meanwhile, every request
    /// fails with ESRCH, and the next wait reports its end.
    fn stopped(&mut self, tid: Tid, status: c_int, seen: &mut impl FnMut(Moment) -> Interest) {
        let signal = libc::WSTOPSIG(status);
        let pass_on = match status >> 16 {
            0 => signal,
            libc::PTRACE_EVENT_EXEC => {
                if self.executed(tid, seen) {
                    0
                } else {
                    return;
                }
            }
            libc::PTRACE_EVENT_EXIT => {
                if self.ends.remove(&tid) {
                    let pid = tid.as_process();
                    seen(Moment::Look { pid });
                }
                0
            }
            // This is a stop of job control: the process stays stopped, and its SIGCONT is
            // reported.
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => {
                let _ = request(libc::PTRACE_LISTEN, tid, 0);
                return;
            }
            _ => 0,
        };
        let _ = request(libc::PTRACE_CONT, tid, pass_on as usize);
    }

    /// Tells of an execution; whether the process is traced further. After an execution, a process has
    /// one thread, its first one.
    fn executed(&mut self, tid: Tid, seen: &mut impl FnMut(Moment) -> Interest) -> bool {
        let pid = tid.as_process();
        // Gone already, or of another user: then there is nothing to tell.
        let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else {
            return true;
        };
        let wanted = match seen(Moment::Exec { pid, program }) {
            Interest::Own => {
                self.ends.remove(&tid);
                return request(libc::PTRACE_DETACH, tid, 0).is_err();
            }
            interest => interest == Interest::Mappings,
        };
        let changed = if wanted {
            self.ends.insert(tid)
        } else {
            self.ends.remove(&tid)
        };
        if changed {
            let exit = if wanted { libc::PTRACE_O_TRACEEXIT } else { 0 };
            let _ = request(libc::PTRACE_SETOPTIONS, tid, (FOLLOW | exit) as usize);
        }
        true
    }
}

/// Waits for a child or tracee of this thread, threads included; for any without `tid`.
fn wait(tid: Option<Tid>) -> io::Result<(Tid, c_int)> {
    let wanted = tid.map_or(-1, Tid::as_raw);
    loop {
        let mut status = 0;
        // SAFETY: the status is a live local.
        let found =
            unsafe { libc::waitpid(wanted, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if let Some(found) = Tid::from_raw(found) {
            return Ok((found, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The C libraries disagree about the sign of a ptrace request.
#[cfg(target_env = "musl")]
type Request = c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

fn request(request: Request, tid: Tid, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here take a number as data and write nothing.
    done(unsafe { libc::ptrace(request, tid.as_raw(), 0usize, data) })
}

/// Asks that the parent of this process be its tracer.
fn trace_me() -> io::Result<()> {
    // SAFETY: the request reads none of its arguments.
    done(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) })
}

fn done(result: libc::c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs that `sh -c script` executes, and the number of them whose exit was seen;
    /// `None` if ptrace is not permitted.
    fn watched(script: &str) -> Option<(Vec<String>, usize, ExitStatus)> {
        let mut programs = Vec::new();
        let mut exits = 0;
        let status = trace(Command::new("sh").args(["-c", script]), |moment| {
            match moment {
                Moment::Exec { program, .. } => {
                    let name = program.file_name().unwrap_or_default();
                    programs.push(name.to_string_lossy().into_owned());
                }
                Moment::Look { pid } => {
                    assert!(std::path::Path::new(&format!("/proc/{pid}/maps")).exists());
                    exits += 1;
                }
            }
            Interest::Mappings
        });
        match status {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                println!("skipped: ptrace is not permitted here");
                None
            }
            status => Some((programs, exits, status.unwrap())),
        }
    }

    fn shell() -> String {
        let path = std::fs::canonicalize("/bin/sh").unwrap();
        path.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn sees_every_exec_of_every_descendant() {
        let script = "(env true; env false); env env true; exit 3";
        let Some((programs, exits, status)) = watched(script) else {
            return;
        };
        assert_eq!(status.code(), Some(3));
        let count = |name: &str| programs.iter().filter(|program| *program == name).count();
        assert!(count("env") + count("coreutils") >= 4, "{programs:?}");
        assert_eq!(count(&shell()), 1);
        assert!(exits >= 4, "{exits}");
    }

    #[test]
    fn signals_and_job_control_work_as_without() {
        let directory = tempfile::tempdir().unwrap();
        let woken = directory.path().join("woken");
        let woken = woken.display();
        let stops = format!(
            "sh -c 'kill -STOP $$; : > {woken}' & \
             while ! [ -e {woken} ]; do kill -CONT $!; done; \
             trap 'exit 9' USR1; kill -USR1 $$; exit 1"
        );
        let Some((_, _, status)) = watched(&stops) else {
            return;
        };
        assert_eq!(status.code(), Some(9));
        let (_, _, status) = watched("kill -TERM $$").unwrap();
        assert_eq!(status.signal(), Some(libc::SIGTERM));
    }

    /// What it starts traces as it pleases, and its end is still the command's.
    #[test]
    fn what_traces_by_itself_is_let_go() {
        let tracer = "import ctypes, sys; sys.exit(7 + ctypes.CDLL(None).ptrace(0, 0, 0, 0))";
        let mut command = Command::new("python3");
        command.args(["-c", tracer]);
        if !command
            .status()
            .is_ok_and(|status| status.code() == Some(7))
        {
            println!("skipped: no python3, or ptrace is not permitted here");
            return;
        }
        for command in [
            &mut command,
            Command::new("env").arg("python3").args(["-c", tracer]),
        ] {
            let status = trace(command, |moment| match moment {
                Moment::Exec { program, .. } if program.to_string_lossy().contains("python") => {
                    Interest::Own
                }
                _ => Interest::Nothing,
            });
            assert_eq!(status.unwrap().code(), Some(7));
        }
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error() {
        assert!(trace(&mut Command::new("/no/such/program"), |_| Interest::Nothing).is_err());
    }
}
