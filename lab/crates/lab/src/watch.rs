//! Starts a guest, reads its events, and ends it when it is done, dies or hangs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;

use hugetext_host::die_with_parent;
use hugetext_lab_agent::{Cell, Event, Finished, Hello, ProbeOutcome};

use crate::error::{LabError, Result};
use crate::qemu::{Machine, program};
use crate::tool;

/// The results of a guest, from start to end.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Said {
    pub(crate) hello: Option<Hello>,
    /// Modules and places that failed, with the reason.
    pub(crate) missing: Vec<(String, String)>,
    pub(crate) results: Vec<(Cell, ProbeOutcome)>,
    /// The result of the command, if one was given.
    pub(crate) command: Option<Finished>,
    /// The path of the kernel's messages.
    pub(crate) console: Option<PathBuf>,
    /// The cell that began but did not end.
    pub(crate) open: Option<Cell>,
    /// Why the guest ended early; `None` if it was done.
    pub(crate) died: Option<String>,
    /// How long the guest ran.
    pub(crate) ran: Duration,
}

impl Said {
    /// Whether the command, if one was given, succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.command
            .as_ref()
            .is_none_or(|command| command.exit == Some(0))
    }

    /// All results as one JSON document.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Runs `machine` until it is done, dies, or prints nothing for `patience`.
pub(crate) fn watch(machine: &Machine, patience: Duration) -> Result<Said> {
    let start = Instant::now();
    let mut command = Command::new(program(machine.arch));
    command
        .args(machine.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    let spawned = die_with_parent(&mut command).spawn();
    let mut guest = Guest(spawned.map_err(|error| tool::missing(&command, error))?);
    let (send, lines) = channel();
    if let Some(stdout) = guest.0.stdout.take() {
        // This thread ends when QEMU does.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
    }
    let mut said = Said {
        console: machine.console.clone(),
        ..Said::default()
    };
    said.died = loop {
        match lines.recv_timeout(patience) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Event::Hello(hello)) => said.hello = Some(hello),
                Ok(Event::Missing { what, error }) => said.missing.push((what, error)),
                Ok(Event::Begin { cell }) => said.open = Some(cell),
                Ok(Event::Result { cell, outcome }) => {
                    said.open = None;
                    said.results.push((cell, outcome));
                }
                Ok(Event::Command(finished)) => said.command = Some(finished),
                Ok(Event::Done) => break None,
                Err(_) => {
                    break Some(format!(
                        "it printed a line that the lab does not understand: {line}"
                    ));
                }
            },
            Err(RecvTimeoutError::Timeout) => {
                break Some(format!("it printed nothing for {} s", patience.as_secs()));
            }
            Err(RecvTimeoutError::Disconnected) => break Some(guest.last_words(machine)),
        }
    };
    said.ran = start.elapsed();
    Ok(said)
}

/// Connects the guest to this terminal until it ends.
pub(crate) fn interact(machine: &Machine) -> Result<()> {
    let mut command = Command::new(program(machine.arch));
    let status = die_with_parent(command.args(machine.arguments())).status();
    if status
        .map_err(|error| tool::missing(&command, error))?
        .success()
    {
        Ok(())
    } else {
        Err(LabError::Tool {
            tool: program(machine.arch),
            message: "it ended with an error".to_owned(),
        })
    }
}

/// A running QEMU, killed when this value is dropped.
struct Guest(Child);

impl Guest {
    /// Why it ended: the last message of the kernel or of QEMU.
    fn last_words(&mut self, machine: &Machine) -> String {
        let _ = self.0.wait();
        let console = machine.console.as_deref().map(read).unwrap_or_default();
        if let Some(line) = console.lines().find_map(fatal) {
            return line.to_owned();
        }
        let complaint = self.0.stderr.take().and_then(|stderr| {
            let lines = BufReader::new(stderr)
                .lines()
                .map_while(std::result::Result::ok);
            lines.last()
        });
        complaint.unwrap_or_else(|| "it ended before it was done".to_owned())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// The message of a console line in which a kernel reports that it is dying, or the agent that it
/// cannot work.
fn fatal(line: &str) -> Option<&str> {
    const SIGNS: [&str; 7] = [
        "Kernel panic",
        "Oops:",
        "BUG:",
        "kernel BUG at",
        "Internal error:",
        "Unable to handle kernel",
        "lab agent:",
    ];
    let start = SIGNS.iter().filter_map(|sign| line.find(sign)).min()?;
    line.get(start..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dying_kernels_are_recognised() {
        assert_eq!(
            fatal("[    1.2] Kernel panic - not syncing: VFS"),
            Some("Kernel panic - not syncing: VFS")
        );
        assert_eq!(
            fatal("[ 3.0] BUG: kernel NULL pointer dereference"),
            Some("BUG: kernel NULL pointer dereference")
        );
        assert_eq!(fatal("[ 0.5] x86: Booting SMP configuration:"), None);
    }
}
