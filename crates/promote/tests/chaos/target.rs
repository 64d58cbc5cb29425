//! A running target: its answers, and what it looked like when it was well.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use nix::sys::signal::{Signal, kill};

use crate::audit::{Content, Look, differences};
use crate::decide::Sent;
use crate::programs::{Conduct, Program};

/// How long a target may take to answer. Longer than any machine under load takes.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a difference must last to count. Threads of a program change their signals and files for moments.
const LASTING: Duration = Duration::from_secs(10);

pub(crate) struct Target {
    pub(crate) program: Program,
    pub(crate) pid: Pid,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it looked like when it had answered for the first time.
    well: Option<(Look, Content)>,
    pub(crate) is_stopped: bool,
    pub(crate) is_asked: bool,
    /// Whether something happened to it that ends some calls with EINTR (signal(7)).
    pub(crate) is_disturbed: bool,
    /// Whether a tracer was killed that may have left it something to do.
    pub(crate) is_abandoned: bool,
    /// What it said though nobody had asked.
    unasked: Option<String>,
    /// Whether its last tracer was killed, which may take it along, and not at once.
    pub(crate) may_die: bool,
}

/// Whether a target still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    Running,
    Killed,
    Ended(String),
}

impl Target {
    /// Starts a program and waits until it is ready. An error says why this machine cannot run it.
    pub(crate) fn start(program: &Program) -> Result<Target, String> {
        let mut command = program.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // Ends with the output of the program.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut target = Target {
            program: program.clone(),
            pid: Pid::of_child(&child),
            input: child.stdin.take(),
            child,
            lines,
            well: None,
            is_stopped: false,
            is_asked: false,
            is_disturbed: false,
            is_abandoned: false,
            unasked: None,
            may_die: false,
        };
        if let Some(ready) = program.ready {
            let said = target.line().unwrap_or_default();
            if !said.starts_with(ready) {
                return Err(format!("it said {said:?}"));
            }
        }
        let conduct = program.conduct;
        if conduct != Conduct::Refuses && !program.ends_when_asked() {
            target.ask()?;
        }
        target.become_well().map_err(|error| error.to_string())?;
        Ok(target)
    }

    /// Remembers what it looks like. A program that waits is waited for.
    fn become_well(&mut self) -> std::io::Result<()> {
        if self.program.conduct == Conduct::Refuses {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let (look, content) = (Look::at(self.pid, true)?, Content::of(self.pid)?);
            let again = Look::at(self.pid, true)?;
            let is_settled = differences(&look, &again, self.program.conduct).is_empty()
                && (!self.program.conduct.waits() || again.all_wait());
            self.well = Some((again, content));
            if is_settled || begun.elapsed() > LASTING {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What it says next, or has said unasked.
    fn line(&mut self) -> Result<String, String> {
        if let Some(said) = self.unasked.take() {
            return Ok(said);
        }
        let said = self.lines.recv_timeout(PATIENCE);
        said.map_err(|error| format!("it says nothing: {error}"))
    }

    /// Asks for the right answer.
    pub(crate) fn ask(&mut self) -> Result<(), String> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let asked = writeln!(input, "{}", self.program.question);
        let said = self.line();
        if said.as_ref().is_ok_and(|said| self.is_excused(said)) {
            return Ok(());
        }
        asked.map_err(|error| format!("it cannot be asked: {error}"))?;
        let said = said?;
        if said.starts_with(self.program.answer) {
            // The next call of a program that waits has other arguments.
            if self.well.is_some() && self.program.serves() {
                self.become_well().map_err(|error| error.to_string())?;
            }
            return Ok(());
        }
        Err(format!("it answered {said:?}"))
    }

    /// Calls that signal(7) lists end with EINTR after SIGSTOP, and after a tracer that was killed.
    fn is_excused(&self, said: &str) -> bool {
        self.is_disturbed && said.starts_with("wrong: ") && said.contains(" returned -4,")
    }

    /// What it said at its end though nobody had asked. Nothing if its one call ended early for a reason that is no
    /// fault of promotion.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let said = self.line().unwrap_or_else(|silence| silence);
        let is_excused = self.program.ends_when_asked() && self.is_excused(&said);
        (!is_excused).then_some(said)
    }

    /// Whether its one call ended early for a reason that is no fault of promotion. On a machine without a free processor
    /// it may take long from there to its last words, and SIGSTOP may hold it between them and its end for several audits.
    fn is_ending(&mut self) -> bool {
        if !self.is_disturbed || !self.program.ends_when_asked() {
            return false;
        }
        self.unasked = self.line().ok();
        self.unasked
            .as_deref()
            .is_some_and(|said| self.is_excused(said))
    }

    /// Lets it end by itself.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let refuses = self.program.conduct == Conduct::Refuses;
        if !self.is_asked && !refuses {
            self.ask()?;
        }
        self.input = None;
        if refuses {
            self.kill();
            return Ok(());
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.health() {
                Health::Running => std::thread::sleep(Duration::from_millis(1)),
                Health::Ended(how) if how != "exit status: 0" => {
                    return Err(format!("it ended by {how}"));
                }
                Health::Killed => return Err("it was killed".to_owned()),
                Health::Ended(_) => return Ok(()),
            }
        }
        Err("it does not end".to_owned())
    }

    /// Sends SIGKILL, and does not wait for the end.
    pub(crate) fn signal_kill(&mut self) {
        let _ = self.child.kill();
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn health(&mut self) -> Health {
        match self.child.try_wait() {
            Ok(None) => Health::Running,
            Ok(Some(status)) if status.signal() == Some(libc::SIGKILL) => Health::Killed,
            Ok(Some(status)) => Health::Ended(status.to_string()),
            Err(error) => Health::Ended(error.to_string()),
        }
    }

    /// Whether a thread of it is traced.
    pub(crate) fn is_traced(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        status.is_ok_and(|status| !status.contains("TracerPid:\t0"))
    }

    /// Compares it with what it looked like when it was well. A difference counts if it lasts.
    pub(crate) fn audit(&mut self) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let found = self.audit_once();
            if found.is_empty() || self.health() != Health::Running {
                return Vec::new();
            }
            if begun.elapsed() > LASTING {
                return if self.is_ending() { Vec::new() } else { found };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn audit_once(&self) -> Vec<String> {
        // Its mappings cannot be read if it is of a kind that nobody may promote.
        let look = Look::at(self.pid, self.well.is_some());
        let look = match look {
            Ok(look) => look,
            Err(error) => return vec![format!("it cannot be looked at: {error}")],
        };
        let nothing = Look::default();
        let (before, content) = match &self.well {
            Some((before, content)) => (before, Some(content)),
            None => (&nothing, None),
        };
        let look = if self.is_abandoned {
            look.without_left_page(before)
        } else {
            look
        };
        let mut found = differences(before, &look, self.program.conduct);
        match content.map(|content| content.first_difference(self.pid)) {
            Some(Ok(Some(at))) => found.push(format!("the bytes at {at:#x} are others")),
            Some(Err(error)) => found.push(format!("its memory cannot be read: {error}")),
            _ => {}
        }
        found
    }

    /// Sends signals. SIGSTOP holds until SIGCONT.
    pub(crate) fn signal(&mut self, signals: &[Sent]) {
        for sent in signals {
            let signal = match sent {
                Sent::Child => Signal::SIGCHLD,
                Sent::Urgent => Signal::SIGURG,
                Sent::Window => Signal::SIGWINCH,
                Sent::Stop => Signal::SIGSTOP,
                Sent::Continue => Signal::SIGCONT,
            };
            match sent {
                Sent::Stop => (self.is_stopped, self.is_disturbed) = (true, true),
                Sent::Continue => self.is_stopped = false,
                _ => {}
            }
            let _ = kill(self.pid.into(), signal);
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose call ended early by SIGSTOP, and which SIGSTOP holds again on its way to its end.
    fn ending() -> Target {
        let said = "echo ready; echo wrong: call returned -4, not 0; read end";
        let program = Program {
            name: "ending".to_owned(),
            words: ["sh", "-c", said].map(str::to_owned).to_vec(),
            ready: Some("ready"),
            question: "",
            answer: "ok",
            conduct: Conduct::Waits,
        };
        let mut target = Target::start(&program).unwrap();
        target.is_disturbed = true;
        target
    }

    #[test]
    fn a_program_that_ends_for_no_fault_is_excused_by_every_audit() {
        let mut target = ending();
        assert!(target.is_ending());
        assert!(target.is_ending());
        assert_eq!(target.last_words(), None);
    }

    #[test]
    fn a_program_that_ends_for_no_fault_need_not_answer() {
        let mut target = ending();
        assert!(target.is_ending());
        assert_eq!(target.finish(), Ok(()));
    }
}
