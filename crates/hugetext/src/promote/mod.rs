//! `hugetext promote`: moves a running process's text onto huge pages, and back.

mod report;

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hugetext_engine::running::{
    PromoteError, PromoteRequest, PromotedProcess, log_promotions, promote_process,
};
use hugetext_engine::{HostContext, MachineVerdict, leaf_use_here};
use hugetext_host::{Pid, Urgent, limit_listing};
use hugetext_leaf::hold::SystemCallCost;
use hugetext_leaf::verdict::{Deed, LeafUse};
use hugetext_leaf::{Backend, Completion};
use hugetext_promote::{Copies, Refusal, SwapError, give_back_until_unused, give_back_unused};

use crate::documents::promote::{PromoteReport, RefusedProcess};
use crate::failure::Failure;
use crate::meaning::{self, Unchanged, of_this_host};
use crate::output::{Detail, Output};
use crate::process_choice::{Absent, ProcessChoice};
use crate::verdict::Verdict;
use report::reason;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
// clap would name the hidden option.
#[command(
    override_usage = "hugetext promote [OPTIONS] <PID|--name <NAME>|--unit <UNIT>|--cgroup <PATH>|--all>"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    chosen: ProcessChoice,
    /// Every process this user may trace
    #[arg(long, group = "which")]
    all: bool,
    /// Give the memory of copies back as the last processes that map them end, and end when there is none
    #[arg(long, group = "which", hide = true, exclusive = true)]
    give_back: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// The method: collapse the file's own pages, map a copy over them (remap), or collapse where
    /// that works and remap elsewhere (auto). Where leaves do harm (`hugetext host`), auto leaves every process as it is
    #[arg(long, value_enum, default_value_t = Method::Auto)]
    backend: Method,
    /// Complete windows with the read-only data beside text too, which becomes executable
    #[arg(long)]
    merge: bool,
    /// Map the original files again
    #[arg(long, conflicts_with_all = ["backend", "merge"])]
    revert: bool,
    /// Collapse the text that programs generate (JIT compilers of V8, the JVM and others), and
    /// nothing else; no thread is stopped
    #[arg(long, conflicts_with_all = ["backend", "merge", "revert", "max_pause"])]
    jit: bool,
    /// Give a change up if threads would stand still for longer than this
    #[arg(long, value_name = "MS")]
    max_pause: Option<u32>,
    /// Keep looking for new processes of the name, unit or cgroup for this time
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["pids", "dry_run", "revert"])]
    wait: Option<u32>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    Auto,
    Collapse,
    Remap,
}

impl From<Method> for Backend {
    fn from(by: Method) -> Backend {
        match by {
            Method::Auto => Backend::Both,
            Method::Collapse => Backend::CollapseOnly,
            Method::Remap => Backend::RemapOnly,
        }
    }
}

impl Arguments {
    /// How text is to be mapped here. Who names a method, generated text or the files has decided.
    fn leaves(&self) -> LeafUse {
        if self.backend != Method::Auto || self.jit || self.revert {
            LeafUse::Leaves
        } else {
            leaf_use_here(Deed::Change)
        }
    }

    /// What may complete a window. The kernel collapses the pages of one mapping, so only a copy can
    /// show text and data as one.
    fn completion(&self) -> Result<Completion, Failure> {
        if !self.merge {
            return Ok(Completion::Unused);
        }
        if self.backend == Method::Collapse {
            let failure = Failure::new(
                "--merge",
                "it needs copies, which `--backend collapse` forbids",
            );
            return Err(failure.remedy("use `--backend auto` or `--backend remap`"));
        }
        Ok(Completion::ReadOnlyData)
    }
}

/// Runs `hugetext promote`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if arguments.give_back {
        let done = give_back_until_unused();
        return done
            .map(|()| Verdict::Done)
            .map_err(|error| Failure::new("copies", error));
    }
    let completion = arguments.completion()?;
    let urgent = Urgent::begin();
    limit_listing();
    let host = HostContext::with_huge_pages()?;
    let request = PromoteRequest {
        kernel: host.kernel,
        leaf: host.leaf,
        backend: arguments.backend.into(),
        completion,
        dry_run: arguments.dry_run,
        revert: arguments.revert,
        generated: arguments.jit,
        max_pause: arguments
            .max_pause
            .map(|ms| Duration::from_millis(ms.into())),
        leaves: arguments.leaves(),
    };
    let by_id = arguments.chosen.is_by_id();
    let mut rounds = Rounds::new(arguments);
    let first = rounds.next()?.unwrap_or_default();
    let bar = output.progress("processes", first.len() as u64);
    let (mut copies, mut report, mut verdict) = (
        Copies::default(),
        PromoteReport::new(request),
        Verdict::Done,
    );
    let mut wanted = VecDeque::from(first);
    let mut uncollapsed = Vec::new();
    loop {
        let Some(pid) = wanted.pop_front() else {
            match rounds.next()? {
                Some(more) => wanted.extend(more),
                None => break,
            }
            continue;
        };
        bar.inc(1);
        match promote_process(pid, request, &mut copies) {
            Ok(process) => {
                if process.changed() == 0 && request.backend == Backend::CollapseOnly {
                    uncollapsed.push(pid);
                }
                verdict = verdict.and(verdict_of(&process, request, by_id));
                report.processes.push(process);
            }
            Err(error) => {
                if matches!(error, PromoteError::Uncollapsible(_)) {
                    uncollapsed.push(pid);
                }
                let refused = RefusedProcess::new(pid, &error);
                match severity(&error) {
                    // The user did not name these processes.
                    Severity::Nothing if !by_id => continue,
                    Severity::Answer if !by_id && is_ending(&error) => continue,
                    Severity::Answer => verdict = verdict.and(Verdict::No),
                    Severity::Nothing | Severity::Error => {
                        let failure = Failure::new(format!("process {pid}"), reason(&error));
                        output.error(&failure);
                        verdict = Verdict::Failed;
                    }
                }
                report.refused.push(refused);
            }
        }
    }
    bar.finish_and_clear();
    drop(urgent);
    if !request.dry_run {
        give_back_unused();
        if copies.have_paths() {
            stay_for_copies(output);
        }
        report.audit = log_promotions(&report.processes, request.revert);
    }
    if !request.revert && report.processes.iter().any(|process| process.changed() > 0) {
        let machine = MachineVerdict::this();
        let cost = machine.judgement.system_call;
        let cost = cost.filter(|_| machine.is_harmful());
        report.costly_system_call_per_mille =
            cost.map(|cost| SystemCallCost(cost.median).per_mille());
    }
    output.result("promote", &report, |report| {
        let changed: Vec<&PromotedProcess> = report
            .processes
            .iter()
            .filter(|one| one.changed() > 0)
            .collect();
        let pids: Vec<Pid> = changed.iter().map(|process| process.pid).collect();
        let bytes = changed.iter().map(|process| process.changed()).sum();
        let meaning = if !pids.is_empty() {
            meaning::promoted(&pids, bytes, report.dry_run, report.revert, of_this_host())
        } else if !uncollapsed.is_empty() {
            meaning::unchanged(&uncollapsed, Unchanged::Uncollapsible)
        } else if request.leaves == LeafUse::AsItIs {
            meaning::unchanged(&pids, Unchanged::Harmful)
        } else {
            meaning::unchanged(&pids, Unchanged::Other)
        };
        format!("{}\n{meaning}", report.show(output.verbose()).trim_end())
    })?;
    Ok(verdict)
}

/// Leaves a process behind that gives the memory of copies back when their last process ends.
fn stay_for_copies(output: &Output) {
    let program = std::env::current_exe();
    let started = program.and_then(|program| {
        Command::new(program)
            .args(["promote", "--give-back"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
    });
    if let Err(error) = started {
        output.warn(Failure::new(
            "copies",
            format!("no process gives them back at the end of the last process: {error}"),
        ));
    }
}

/// A process that the user named and that has no text to promote makes the answer no. With
/// --revert, a copy that stays mapped makes it no.
fn verdict_of(process: &PromotedProcess, request: PromoteRequest, by_id: bool) -> Verdict {
    Verdict::no_if(if request.revert {
        !process.left.is_empty()
    } else {
        by_id && !process.is_on_huge_pages()
    })
}

/// What an error about one process means for the whole command.
enum Severity {
    /// A process that `--all` and `--name` skip.
    Nothing,
    /// The answer is no, for this reason.
    Answer,
    /// An error.
    Error,
}

fn is_ending(error: &PromoteError) -> bool {
    matches!(
        error,
        PromoteError::Swap(SwapError::Refusal(Refusal::Exiting))
    )
}

fn severity(error: &PromoteError) -> Severity {
    let PromoteError::Swap(error) = error else {
        return Severity::Answer;
    };
    match error {
        SwapError::Refusal(refusal) => match refusal {
            Refusal::Gone | Refusal::Own | Refusal::KernelThread | Refusal::Forbidden { .. } => {
                Severity::Nothing
            }
            Refusal::Unlisted(_) | Refusal::Io(_) => Severity::Error,
            _ => Severity::Answer,
        },
        SwapError::Changed { .. }
        | SwapError::TooManyFiles
        | SwapError::FilesRefused
        | SwapError::TooManyMappings { .. }
        | SwapError::TooLong(_)
        | SwapError::Frozen => Severity::Answer,
        _ => Severity::Error,
    }
}

/// The processes to change, in rounds: those there are, and with `--wait` those that come.
struct Rounds<'a> {
    arguments: &'a Arguments,
    /// Until when new processes are looked for.
    until: Instant,
    seen: Seen,
}

/// Which processes were seen and given out.
#[derive(Debug, Default)]
struct Seen {
    round: u32,
    /// Processes of the last round, each with whether it was given out.
    known: BTreeMap<Pid, bool>,
}

impl Seen {
    /// Those of the processes that are `there` to give out now. A process that starts while it is
    /// waited for is given out in the round after, when it has mapped its libraries.
    fn give_out(&mut self, there: impl IntoIterator<Item = Pid>) -> Vec<Pid> {
        let is_first = self.round == 0;
        self.round = self.round.saturating_add(1);
        let known = std::mem::take(&mut self.known);
        let mut new = Vec::new();
        for pid in there {
            let given = known.get(&pid).copied();
            if given == Some(false) || is_first {
                new.push(pid);
            }
            self.known.insert(pid, is_first || given.is_some());
        }
        new
    }

    /// Whether a process was seen and not given out yet.
    fn owes_any(&self) -> bool {
        self.known.values().any(|is_given| !is_given)
    }
}

impl Rounds<'_> {
    fn new(arguments: &Arguments) -> Rounds<'_> {
        let seconds = arguments.wait.unwrap_or(0);
        Rounds {
            arguments,
            until: Instant::now() + Duration::from_secs(seconds.into()),
            seen: Seen::default(),
        }
    }

    /// The new processes of the next round; `None` at the end. Those that were seen when the time was over have a round
    /// of their own.
    fn next(&mut self) -> Result<Option<Vec<Pid>>, Failure> {
        /// Time between two rounds.
        const NAP: Duration = Duration::from_secs(1);
        let left = self.until.saturating_duration_since(Instant::now());
        let is_first = self.seen.round == 0;
        let is_last = !is_first && left.is_zero();
        if is_last && !self.seen.owes_any() {
            return Ok(None);
        }
        if !is_first {
            std::thread::sleep(if is_last { NAP } else { NAP.min(left) });
        }
        let absent = match self.arguments.wait {
            Some(_) => Absent::MayCome,
            None => Absent::Error,
        };
        let mut there = self.arguments.chosen.processes(absent)?;
        if is_last {
            there.retain(|pid| self.seen.known.contains_key(pid));
        }
        Ok(Some(self.seen.give_out(there)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_seen_in_one_round_is_given_out_in_the_next() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let mut seen = Seen::default();
        assert_eq!(seen.give_out([pid(1)]), [pid(1)]);
        assert!(!seen.owes_any());
        assert_eq!(seen.give_out([pid(1), pid(2)]), []);
        assert!(seen.owes_any(), "the time may be over now");
        assert_eq!(seen.give_out([pid(1), pid(2)]), [pid(2)]);
        assert!(!seen.owes_any());
        assert_eq!(seen.give_out([pid(2)]), []);
    }
}
