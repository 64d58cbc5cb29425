//! A shell command that prints a count. It has a time limit, and ends with the measurement.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use hugetext_host::{Pid, Running};
use rustix::process::{Signal, kill_process_group};

use super::work_error::{ANSWER, WorkError};
use crate::interrupt::{Bounds, NAP};

/// No count is longer than this many bytes.
const MOST_OUTPUT: u64 = 1 << 20;

/// The last number that `command` prints.
pub(super) fn printed(command: &str, bounds: &Bounds<'_>) -> Result<f64, WorkError> {
    let (mut stdout, mut stderr) = (unnamed()?, unnamed()?);
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    shell.stdout(stdout.try_clone().map_err(WorkError::Shell)?);
    shell.stderr(stderr.try_clone().map_err(WorkError::Shell)?);
    // Ctrl-C reaches the measurement alone, which ends the command.
    shell.process_group(0);
    let child = shell.spawn().map_err(WorkError::Shell)?;
    let status = Group(child).wait(command, bounds)?;
    let command = command.to_owned();
    if !status.success() {
        let said = output(&mut stderr)?;
        let said = said.trim_end().lines().last();
        let said = said.map_or_else(String::new, |line| format!(": {line}"));
        let status = format!("{status}{said}");
        return Err(WorkError::Failed { command, status });
    }
    last_number(&output(&mut stdout)?).ok_or(WorkError::NoNumber { command })
}

fn unnamed() -> Result<File, WorkError> {
    tempfile::tempfile().map_err(WorkError::Shell)
}

fn output(file: &mut File) -> Result<String, WorkError> {
    let mut bytes = Vec::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(MOST_OUTPUT).read_to_end(&mut bytes));
    read.map_err(WorkError::Shell)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A shell and what it started, which are killed if nobody has waited for the shell.
struct Group(Child);

impl Group {
    fn wait(mut self, command: &str, bounds: &Bounds<'_>) -> Result<ExitStatus, WorkError> {
        let begun = Instant::now();
        let running = Running::new(Pid::of_child(&self.0)).map_err(WorkError::Shell)?;
        while !running.ends_within(NAP).map_err(WorkError::Shell)? {
            bounds.check().map_err(WorkError::Stopped)?;
            if begun.elapsed() > ANSWER {
                return Err(WorkError::Slow {
                    command: command.to_owned(),
                });
            }
        }
        self.0.wait().map_err(WorkError::Shell)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let group = rustix::process::Pid::from_child(&self.0);
            let _: io::Result<()> = kill_process_group(group, Signal::KILL).map_err(Into::into);
            let _ = self.0.wait();
        }
    }
}

fn last_number(text: &str) -> Option<f64> {
    let words = text.split_whitespace().rev();
    words
        .filter_map(|word| word.parse().ok())
        .find(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number("requests: 12 of 40\n"), Some(40.0));
        assert_eq!(last_number("1.5e3 done"), Some(1500.0));
        assert_eq!(last_number("none NaN inf"), None);
        let interrupt = Interrupt::default();
        let bounds = interrupt.within(60);
        assert_eq!(printed("echo work 7", &bounds).unwrap(), 7.0);
        let failed = printed("echo 7; echo no server >&2; exit 3", &bounds).unwrap_err();
        let said = failed.to_string();
        assert!(
            said.ends_with("ended with exit status: 3: no server"),
            "{said}"
        );
        let none = printed("echo none", &bounds).unwrap_err();
        assert!(matches!(none, WorkError::NoNumber { .. }));
    }

    #[test]
    fn a_command_that_hangs_ends_with_the_measurement() {
        let interrupt = Interrupt::default();
        // The time is up at once.
        let hanging = printed("cat /dev/zero | sleep 1000", &interrupt.within(0));
        assert!(matches!(hanging, Err(WorkError::Stopped(_))));
    }
}
