//! A run of the program that promotes, and what became of it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use nix::sys::signal::{Signal, kill};

use crate::decide::Change;
use crate::place::example;

/// How long a tracer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program that promotes: the whole command if HUGETEXT_COMMAND names it, otherwise the example `stop`.
pub(crate) struct TracerProgram {
    path: PathBuf,
    pub(crate) is_command: bool,
}

impl TracerProgram {
    pub(crate) fn of_environment() -> TracerProgram {
        match std::env::var_os("HUGETEXT_COMMAND") {
            Some(path) => TracerProgram {
                path: path.into(),
                is_command: true,
            },
            None => TracerProgram {
                path: example("stop"),
                is_command: false,
            },
        }
    }

    pub(crate) fn start(&self, change: Change, max_pause: Option<u32>, pids: &[Pid]) -> Tracer {
        let (mut out, mut errors) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let mut command = Command::new(&self.path);
        command.arg("promote");
        match change {
            Change::Promote => &mut command,
            Change::Merge => command.arg("--merge"),
            Change::Revert => command.arg("--revert"),
            Change::Jit => command.arg("--jit"),
        };
        if self.is_command {
            command.arg("--json");
        }
        if let Some(ms) = max_pause.filter(|_| change != Change::Jit) {
            command.args(["--max-pause", &ms.to_string()]);
        }
        command.args(pids.iter().map(Pid::to_string));
        command.stdin(Stdio::null());
        command
            .stdout(out.try_clone().unwrap())
            .stderr(errors.try_clone().unwrap());
        out.rewind().unwrap();
        errors.rewind().unwrap();
        Tracer {
            child: command.spawn().unwrap(),
            out,
            errors,
        }
    }
}

pub(crate) struct Tracer {
    child: Child,
    out: File,
    errors: File,
}

/// How a tracer ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// `None` after a signal, or if it had to be ended.
    pub(crate) code: Option<i32>,
    /// Where its threads were, if it had to be ended.
    pub(crate) late_in: Option<String>,
    /// How long each stop lasted.
    pub(crate) stops: Vec<Duration>,
    /// What it said, without numbers.
    pub(crate) words: Vec<String>,
}

impl Tracer {
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(Pid::of_child(&self.child).into(), signal);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn wait(mut self) -> Ending {
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(200));
        }
        let late_in = (!self.has_ended()).then(|| threads_of(Pid::of_child(&self.child)));
        if late_in.is_some() {
            let _ = self.child.kill();
        }
        let code = self.child.wait().unwrap().code();
        let text = |file: &mut File| {
            let mut text = Vec::new();
            file.rewind()
                .and_then(|()| file.read_to_end(&mut text))
                .unwrap();
            String::from_utf8_lossy(&text).into_owned()
        };
        let (out, errors) = (text(&mut self.out), text(&mut self.errors));
        // Less indented than those of text that is left.
        let reasons = out
            .lines()
            .filter(|line| line.starts_with("      \"reason\""));
        let words = errors.lines().chain(reasons).map(without_numbers).collect();
        Ending {
            code,
            late_in,
            stops: pauses(&out),
            words,
        }
    }
}

/// For each thread of a process its state, the call that it is in, and the kernel's functions down to the one in which it
/// waits.
pub(crate) fn threads_of(pid: Pid) -> String {
    let mut shown = String::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |file| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (stat, call, stack) = (read("stat"), read("syscall"), read("stack"));
        let state = stat.rsplit(") ").next().and_then(|rest| rest.get(..1));
        let stack: Vec<&str> = stack
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        shown += &format!(
            "thread {} {} in {}, {}; ",
            entry.file_name().display(),
            state.unwrap_or("?"),
            call.trim(),
            stack.join(" < ")
        );
    }
    shown
}

/// The stops that the tracer tells of.
fn pauses(out: &str) -> Vec<Duration> {
    let after = out.split("\"total_ns\":").skip(1);
    let digits = |rest: &str| -> String {
        rest.trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect()
    };
    after
        .filter_map(|rest| digits(rest).parse().ok())
        .map(Duration::from_nanos)
        .collect()
}

/// A message with N in the place of each number, so that equal ones can be counted.
fn without_numbers(line: &str) -> String {
    let mut shown = String::new();
    for word in line
        .trim()
        .split_inclusive(|letter: char| !letter.is_ascii_alphanumeric())
    {
        let end = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if end.starts_with(|letter: char| letter.is_ascii_digit()) {
            shown.push('N');
            shown.push_str(&word[end.len()..]);
        } else {
            shown.push_str(word);
        }
    }
    shown
}

/// Words of a tracer that mean harm in every case.
pub(crate) fn is_alarming(words: &str) -> bool {
    words.contains("panicked") || words.contains("could not be undone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_without_their_numbers() {
        assert_eq!(
            without_numbers("process 17: at 0x7f00: gone"),
            "process N: at N: gone"
        );
        assert!(is_alarming("thread 'main' panicked at"));
    }
}
