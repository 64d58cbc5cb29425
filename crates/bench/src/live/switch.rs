//! Processes whose text is moved onto huge pages and back, and left as they are wanted in the end.

use std::time::Duration;

use hugetext_engine::HostContext;
use hugetext_engine::running::{PromoteError, PromoteRequest, PromotedProcess, promote_process};
use hugetext_host::{Pid, Running, text_mappings};
use hugetext_leaf::verdict::LeafUse;
use hugetext_leaf::{Backend, Completion};
use hugetext_promote::Copies;

use crate::error::BenchError;

/// Where the text of the processes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextPlace {
    /// In the file's own pages.
    Reverted,
    /// In copies on huge pages.
    Promoted,
}

impl TextPlace {
    /// Both, the one that is compared with first.
    pub(super) const SIDES: [TextPlace; 2] = [TextPlace::Reverted, TextPlace::Promoted];
}

/// What the processes are left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// What they had before.
    AsFound,
    /// Text on huge pages.
    Promoted,
    /// The files' own pages.
    Reverted,
}

/// How the user named the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Each by its id.
    Each,
    /// All together, by a name, a unit or a cgroup: those without text to move are not switched.
    Together,
}

/// How long a process may take from its last instruction to its end.
const ENDING: Duration = Duration::from_secs(1);

/// One of the processes.
#[derive(Debug)]
struct SwitchedProcess {
    pid: Pid,
    running: Running,
    /// What it is left with.
    in_the_end: TextPlace,
    /// What it has now.
    now: TextPlace,
}

impl SwitchedProcess {
    fn ensure_running(&self) -> Result<(), BenchError> {
        self.ensure_running_for(Duration::ZERO)
    }

    /// An error if the process ends within `limit`.
    fn ensure_running_for(&self, limit: Duration) -> Result<(), BenchError> {
        match self.running.ends_within(limit) {
            Ok(true) => Err(BenchError::new(
                named(self.pid),
                "ended while it was measured",
            )),
            Ok(false) => Ok(()),
            Err(error) => Err(BenchError::new(named(self.pid), error)),
        }
    }
}

/// The processes. They are left as wanted when this value is dropped, unless
/// [`Switch::leave`] was called, which reports errors.
#[derive(Debug)]
pub(super) struct Switch {
    processes: Vec<SwitchedProcess>,
    host: HostContext,
    copies: Copies,
    /// Bytes of text that copies replace.
    promoted: u64,
}

impl Switch {
    /// Takes the processes as they are, and changes nothing yet. An error if one has no text that can
    /// be moved, or may not be changed; if the user did not name each, only if all are so.
    pub(super) fn new(
        pids: &[Pid],
        naming: Naming,
        leave: Leave,
        host: HostContext,
    ) -> Result<Switch, BenchError> {
        let mut switch = Switch {
            processes: Vec::new(),
            host,
            copies: Copies::default(),
            promoted: 0,
        };
        let mut unfit = None;
        for pid in pids {
            match switch.take(*pid, leave) {
                Ok(process) => switch.processes.push(process),
                Err(error) if naming == Naming::Together => unfit = Some(error),
                Err(error) => return Err(error),
            }
        }
        match unfit {
            Some(error) if switch.processes.is_empty() => Err(error),
            _ => Ok(switch),
        }
    }

    fn take(&mut self, pid: Pid, leave: Leave) -> Result<SwitchedProcess, BenchError> {
        let running = Running::new(pid).map_err(|error| BenchError::new(named(pid), error))?;
        let planned = self.change(pid, TextPlace::Promoted, Intent::Plan)?;
        let found = if planned.copies > 0 {
            TextPlace::Promoted
        } else {
            TextPlace::Reverted
        };
        if found == TextPlace::Reverted && planned.changed() == 0 {
            let why = planned.left.first().map(|left| left.reason.as_str());
            let problem = format!("no text to move: {}", why.unwrap_or("it has none"));
            return Err(BenchError::new(named(pid), problem));
        }
        let in_the_end = match leave {
            Leave::AsFound => found,
            Leave::Promoted => TextPlace::Promoted,
            Leave::Reverted => TextPlace::Reverted,
        };
        Ok(SwitchedProcess {
            pid,
            running,
            in_the_end,
            now: found,
        })
    }

    /// Bytes of text of all processes that copies on huge pages replaced last.
    pub(super) fn promoted(&self) -> u64 {
        self.promoted
    }

    /// An error if a process has ended.
    pub(super) fn ensure_running(&self) -> Result<(), BenchError> {
        self.processes
            .iter()
            .try_for_each(SwitchedProcess::ensure_running)
    }

    /// Brings all processes into one state.
    pub(super) fn to(&mut self, text: TextPlace) -> Result<(), BenchError> {
        self.ensure_running()?;
        let mut bytes = 0;
        for index in 0..self.processes.len() {
            bytes += self.bring(index, text)?;
        }
        if text == TextPlace::Promoted && bytes > 0 {
            self.promoted = bytes;
        }
        Ok(())
    }

    /// Leaves each process with what is wanted in the end. All are tried; the first error is returned.
    /// A process that has ended needs nothing, and its number may be that of another one.
    pub(super) fn leave(&mut self) -> Result<(), BenchError> {
        let mut first = Ok(());
        for index in 0..self.processes.len() {
            let running = self.processes.get(index);
            let running = running.filter(|process| process.ensure_running().is_ok());
            let Some(wanted) = running.map(|process| process.in_the_end) else {
                continue;
            };
            let left = self.bring(index, wanted);
            first = first.and(left.map(drop));
        }
        first
    }

    /// Brings one process into a state. Returns the bytes that changed.
    fn bring(&mut self, index: usize, text: TextPlace) -> Result<u64, BenchError> {
        let Some(pid) = self
            .processes
            .get(index)
            .filter(|process| process.now != text)
        else {
            return Ok(0);
        };
        let pid = pid.pid;
        let changed = self.change(pid, text, Intent::Act);
        // A process that is ending refuses in several ways.
        if changed.is_err() {
            let ending = self.processes.get(index);
            ending.map_or(Ok(()), |process| process.ensure_running_for(ENDING))?;
        }
        let changed = changed?;
        if text == TextPlace::Reverted && !changed.left.is_empty() {
            return Err(BenchError::new(
                named(pid),
                "its text could not be mapped back",
            ));
        }
        if text == TextPlace::Promoted && changed.changed() == 0 {
            return Err(BenchError::new(
                named(pid),
                "its text could not be promoted again",
            ));
        }
        if let Some(process) = self.processes.get_mut(index) {
            process.now = text;
        }
        Ok(changed.changed())
    }

    fn change(
        &mut self,
        pid: Pid,
        text: TextPlace,
        intent: Intent,
    ) -> Result<PromotedProcess, BenchError> {
        let request = PromoteRequest {
            kernel: self.host.kernel,
            leaf: self.host.leaf,
            backend: Backend::RemapOnly,
            completion: Completion::Unused,
            dry_run: intent == Intent::Plan,
            revert: text == TextPlace::Reverted,
            generated: false,
            max_pause: None,
            // What is measured is what leaves do.
            leaves: LeafUse::Leaves,
        };
        promote_process(pid, request, &mut self.copies).map_err(|error| failed(pid, &error))
    }

    /// Bytes of the processes' text that PMD leaves map now.
    pub(super) fn pmd_mapped(&self) -> u64 {
        let mappings = self
            .processes
            .iter()
            .filter_map(|p| text_mappings(p.pid).ok());
        mappings.flatten().map(|text| text.pmd_mapped).sum()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

/// Whether a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Plan,
    Act,
}

/// A process as the subject of an error.
pub(super) fn named(pid: Pid) -> String {
    format!("process {pid}")
}

fn failed(pid: Pid, error: &PromoteError) -> BenchError {
    BenchError::new(named(pid), error)
}
