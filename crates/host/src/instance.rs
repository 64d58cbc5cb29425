//! A look at a command's process at the very end of its life, when it still has all its mappings.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

/// A command that runs under ptrace(2) without address space randomisation.
#[derive(Debug)]
pub struct Instance {
    pid: libc::pid_t,
}

impl Instance {
    /// Starts `command`. The calling thread becomes its tracer, and [`Instance::at_exit`] must be
    /// called on that thread; if it ends before, the kernel kills the command.
    pub fn start(command: &mut Command) -> io::Result<Instance> {
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let child: Child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
        let instance = Instance { pid };
        // The stop after exec. Nothing else can come before it, but the end.
        let status = instance.wait()?;
        if libc::WIFSTOPPED(status) {
            let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL;
            instance.request(libc::PTRACE_SETOPTIONS as _, options as usize)?;
            instance.request(libc::PTRACE_CONT as _, 0)?;
        }
        Ok(instance)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the command run, has `look` look at the process when it begins to exit, and waits for
    /// it. `None` if it was gone before it could be looked at (killed while it was stopped).
    pub fn at_exit<T>(self, look: impl FnOnce(i32) -> T) -> io::Result<(Option<T>, ExitStatus)> {
        let mut look = Some(look);
        let mut seen = None;
        loop {
            let status = self.wait()?;
            if !libc::WIFSTOPPED(status) {
                return Ok((seen, ExitStatus::from_raw(status)));
            }
            let exiting = status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8;
            if let Some(look) = look.take_if(|_| exiting) {
                seen = Some(look(self.pid));
            }
            // A trap is ptrace's own (the stop of an exec); other signals are the command's.
            let signal = match libc::WSTOPSIG(status) {
                libc::SIGTRAP => 0,
                signal => signal as usize,
            };
            match self.request(libc::PTRACE_CONT as _, signal) {
                // Killed while it was stopped; the wait above tells.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
    }

    fn wait(&self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: the status is a live local; the child is this process's own and nobody else waits
        // for it, since the `Child` was dropped, which does not wait.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(status)
    }

    fn request(&self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: the requests used here take a number as data and write nothing.
        match unsafe { libc::ptrace(request as _, self.pid, 0usize, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
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
    use crate::process::text_mappings;

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
