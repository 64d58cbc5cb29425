//! Promotes a program that checks all its results, and maps it back, while it runs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod copies;
mod given_up;
mod held;
mod killed;
mod merge;
#[path = "../place/mod.rs"]
mod place;
mod probed;
mod profile;
mod refused;
mod words;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugetext_host::{Machine, Pid};
use hugetext_leaf::{
    Backend, Completion, FileId, Leaf, Perms, Promotion, PromotionPolicy, Reason, Span, promotion,
};
use hugetext_promote::{
    Copies, Mappings, Refusal, SwapError, SwapOutcome, Target, promote, revert,
};
use nix::sys::signal::{Signal, kill};
use place::{example, keep_mounts_in};

struct Busy {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Busy {
    fn start(threads: usize) -> Busy {
        Busy::run(Command::new(program()).arg(threads.to_string()))
    }

    fn run(command: &mut Command) -> Busy {
        let (busy, line) = Busy::spawn(command);
        assert!(line.starts_with("ready "), "{line}");
        busy
    }

    /// Starts it, and returns the first line that it prints. It is started again if it lies in memory as in its file, as
    /// one start of 512 does by chance: where its file is in huge folios, its text is huge then, and there is nothing to
    /// promote.
    fn spawn(command: &mut Command) -> (Busy, String) {
        let mut started = Busy::spawn_anywhere(command);
        for _ in 0..8 {
            if !started.0.lies_as_in_its_file() {
                break;
            }
            eprintln!("again: it lies in memory as in its file");
            started.0.kill();
            started = Busy::spawn_anywhere(command);
        }
        started
    }

    fn spawn_anywhere(command: &mut Command) -> (Busy, String) {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut busy = Busy {
            child,
            input,
            output,
        };
        let line = busy.line();
        (busy, line)
    }

    /// Whether a window of its text is where one folio of 2 MiB of its file could be mapped.
    fn lies_as_in_its_file(&self) -> bool {
        let text = hugetext_host::text_mappings(Pid::of_child(&self.child)).unwrap_or_default();
        text.iter().any(|text| {
            let Span { start, end } = text.addresses;
            Leaf::M2.is_aligned(start.wrapping_sub(text.offset))
                && Leaf::M2.align_up(start) + Leaf::M2.bytes() <= end
        })
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn target(&self) -> Result<Target, Refusal> {
        Target::open(Pid::of_child(&self.child))
    }

    /// Checks that every thread has done a full round since the request and found no error.
    fn assert_well(&mut self) {
        writeln!(self.input.as_ref().unwrap()).unwrap();
        let line = self.line();
        assert!(line.starts_with("ok "), "{line}");
    }

    fn finish(mut self) {
        self.input = None;
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.starts_with("done "), "{line}");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Busy {
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The example `busy`.
fn program() -> PathBuf {
    example("busy")
}

/// The leaf to promote to. Prints the reason if this machine has none.
fn leaf() -> Option<Leaf> {
    keep_mounts_in();
    let leaf = Machine::this().pmd;
    if leaf.is_none_or(|leaf| leaf > Leaf::M2) {
        eprintln!("skipped: no PMD leaf of 2 MiB here");
        return None;
    }
    leaf
}

fn plan(mappings: &Mappings, leaf: Leaf) -> Promotion {
    plan_with(mappings, leaf, Completion::Unused)
}

fn plan_with(mappings: &Mappings, leaf: Leaf, completion: Completion) -> Promotion {
    let policy = PromotionPolicy {
        leaf,
        backend: Backend::RemapOnly,
        completion,
    };
    promotion(&mappings.vmas, policy, |_| None)
}

/// Promotes everything. `None`, with the reason printed, if the machine does not permit promotion.
fn promote_all(target: &Target, leaf: Leaf, copies: &mut Copies) -> Option<SwapOutcome> {
    promote_with(target, leaf, copies, Completion::Unused)
}

fn promote_with(
    target: &Target,
    leaf: Leaf,
    copies: &mut Copies,
    completion: Completion,
) -> Option<SwapOutcome> {
    let mappings = target.mappings().unwrap();
    let plan = plan_with(&mappings, leaf, completion);
    if plan.runs.is_empty() {
        eprintln!("nothing to promote: {:?}", plan.left);
    }
    match retried(|| promote(target, &mappings, &plan.runs, leaf, copies)) {
        Ok(outcome) if outcome.done.is_empty() && !outcome.left.is_empty() => {
            eprintln!("skipped: {:?}", outcome.left);
            None
        }
        Ok(outcome) => Some(outcome),
        Err(SwapError::Refusal(Refusal::Forbidden { remedy })) => {
            eprintln!("skipped: {remedy}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn revert_all(target: &Target) -> SwapOutcome {
    retried(|| revert(target, &target.mappings().map_err(Refusal::from)?)).unwrap()
}

/// An attempt may fail for a temporary reason, which the error names.
fn retried(
    mut attempt: impl FnMut() -> Result<SwapOutcome, SwapError>,
) -> Result<SwapOutcome, SwapError> {
    for _ in 0..20 {
        match attempt() {
            Err(
                error @ (SwapError::NoThread
                | SwapError::FileChanged
                | SwapError::DidNotStop { .. }
                | SwapError::Moved { .. }),
            ) => eprintln!("again: {error}"),
            other => return other,
        }
    }
    attempt()
}

/// The file mappings. Neighbouring mappings that show one file contiguously count as one.
fn layout(target: &Target) -> Vec<(Span, u64, Option<FileId>, Perms)> {
    let mut layout: Vec<(Span, u64, Option<FileId>, Perms)> = Vec::new();
    for vma in target.mappings().unwrap().vmas {
        let (span, offset) = (vma.addresses, vma.offset);
        match layout.last_mut() {
            Some((last, first, file, perms))
                if last.end == span.start
                    && *first + last.len() == offset
                    && (*file, *perms) == (vma.file, vma.perms) =>
            {
                last.end = span.end;
            }
            _ => layout.push((span, offset, vma.file, vma.perms)),
        }
    }
    layout.retain(|(_, _, file, _)| file.is_some());
    layout
}

fn huge(target: &Target) -> u64 {
    let text = hugetext_host::text_mappings(target.pid()).unwrap();
    text.iter().map(|mapping| mapping.pmd_mapped).sum()
}

#[test]
fn a_busy_program_goes_there_and_back_and_notices_nothing() {
    let Some(leaf) = leaf() else { return };
    let rounds = from_environment("HUGETEXT_ROUNDS", 50);
    let mut busy = Busy::start(from_environment("HUGETEXT_THREADS", 24));
    let target = busy.target().unwrap();
    let at_first = layout(&target);
    let mut copies = Copies::default();
    for round in 0..rounds {
        let Some(outcome) = promote_all(&target, leaf, &mut copies) else {
            return;
        };
        assert!(!outcome.done.is_empty(), "round {round}: {outcome:?}");
        assert_eq!(outcome.left, [], "round {round}");
        if round % 10 == 0 {
            busy.assert_well();
            assert!(huge(&target) >= leaf.bytes());
        }
        let outcome = revert_all(&target);
        assert!(outcome.left.is_empty(), "round {round}: {outcome:?}");
        assert!(!outcome.done.is_empty(), "round {round}: {outcome:?}");
    }
    busy.assert_well();
    assert_eq!(at_first, layout(&target));
    assert_eq!(huge(&target), 0);
    busy.finish();
}

/// If a skipped or failed test left the program running or stopped, ends it and prints its output.
impl Drop for Busy {
    fn drop(&mut self) {
        let before = self.child.try_wait();
        let _ = self.child.kill();
        if std::thread::panicking() {
            eprintln!("the busy program had ended with {before:?}");
            let mut rest = String::new();
            let _ = self.output.read_to_string(&mut rest);
            eprintln!("the busy program said: {rest}");
        }
        let _ = self.child.wait();
    }
}

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn a_changed_page_is_left_and_the_rest_promoted() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(4);
    let target = busy.target().unwrap();
    let mappings = target.mappings().unwrap();
    let windows = plan(&mappings, leaf).runs[0].windows;
    // A debugger sets a breakpoint in this way. Here the byte keeps its value.
    let path = format!("/proc/{}/mem", target.pid());
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    memory.read_exact_at(&mut byte, windows.start).unwrap();
    if memory.write_all_at(&byte, windows.start).is_err() {
        eprintln!("skipped: this kernel permits no process to write to text");
        return;
    }
    // The change came after the plan was made. It is found while the process is stopped.
    let runs = plan(&mappings, leaf).runs;
    let changed = retried(|| promote(&target, &mappings, &runs, leaf, &mut Copies::default()));
    assert!(
        matches!(changed, Err(SwapError::Changed { at }) if at == windows.start),
        "{changed:?}"
    );
    assert_eq!(huge(&target), 0);
    // If the change is known before the plan is made, it costs one window.
    let plan = plan(&target.mappings().unwrap(), leaf);
    assert!(plan.left.iter().any(|left| left.reason == Reason::Changed));
    assert_eq!(plan.runs[0].windows.start, windows.start + leaf.bytes());
    let Some(outcome) = promote_all(&target, leaf, &mut Copies::default()) else {
        return;
    };
    assert!(!outcome.done.is_empty());
    busy.assert_well();
    busy.finish();
}

/// A bound that cannot be kept leaves the process as it was, and one that can changes nothing.
#[test]
fn a_pause_is_bounded_by_giving_up() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(4);
    let pid = Pid::of_child(&busy.child);
    let bounded = |bound| Target::open(pid).unwrap().with_max_pause(Some(bound));
    let target = bounded(Duration::from_nanos(1));
    let (at_first, mappings) = (layout(&target), target.mappings().unwrap());
    let runs = plan(&mappings, leaf).runs;
    match retried(|| promote(&target, &mappings, &runs, leaf, &mut Copies::default())) {
        Err(SwapError::TooLong(_)) => {}
        Err(SwapError::Refusal(Refusal::Forbidden { remedy })) => {
            return eprintln!("skipped: {remedy}");
        }
        Ok(outcome) if outcome.done.is_empty() => {
            return eprintln!("skipped: {:?}", outcome.left);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(layout(&target), at_first);
    busy.assert_well();
    let target = bounded(Duration::from_secs(60));
    let Some(outcome) = promote_all(&target, leaf, &mut Copies::default()) else {
        return;
    };
    if outcome.done.is_empty() {
        return eprintln!("skipped: {:?}", outcome.left);
    }
    busy.assert_well();
    busy.finish();
}

/// After mapping back, the kernel has as many mappings of the program's text as before.
#[test]
fn mapping_back_leaves_one_mapping_of_one() {
    let Some(leaf) = leaf() else { return };
    let busy = Busy::start(1);
    let target = busy.target().unwrap();
    let text = |target: &Target| {
        let mappings = target.mappings().unwrap();
        let exec = mappings.vmas.iter().filter(|vma| vma.perms.exec);
        exec.map(|vma| vma.addresses).collect::<Vec<_>>()
    };
    let before = text(&target);
    if promote_all(&target, leaf, &mut Copies::default()).is_none() {
        return;
    }
    revert_all(&target);
    assert_eq!(text(&target), before);
    busy.finish();
}

#[test]
fn a_stopped_process_stays_stopped() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(8);
    let target = busy.target().unwrap();
    let pid = target.pid().into();
    kill(pid, Signal::SIGSTOP).unwrap();
    wait_for_state(&target, "T (stopped)");
    let Some(outcome) = promote_all(&target, leaf, &mut Copies::default()) else {
        return;
    };
    assert!(!outcome.done.is_empty());
    wait_for_state(&target, "T (stopped)");
    kill(pid, Signal::SIGCONT).unwrap();
    busy.assert_well();
    busy.finish();
}

fn wait_for_state(target: &Target, state: &str) {
    let path = format!("/proc/{}/status", target.pid());
    let begun = Instant::now();
    while !std::fs::read_to_string(&path).unwrap().contains(state) {
        assert!(begun.elapsed() < Duration::from_secs(10), "never {state}");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_without_room_for_files_is_left_as_it_was() {
    let Some(leaf) = leaf() else { return };
    let busy = Busy::start(4);
    let target = busy.target().unwrap();
    let at_first = layout(&target);
    let limit = Command::new("prlimit")
        .args(["--nofile=5:5", "--pid", &target.pid().to_string()])
        .status();
    if !limit.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no prlimit");
        return;
    }
    let mappings = target.mappings().unwrap();
    let runs = plan(&mappings, leaf).runs;
    let refused = retried(|| promote(&target, &mappings, &runs, leaf, &mut Copies::default()));
    assert!(
        matches!(
            refused,
            Err(SwapError::TooManyFiles | SwapError::Refused { .. })
        ),
        "{refused:?}"
    );
    assert_eq!(at_first, layout(&target));
    busy.finish();
}

#[test]
fn two_processes_share_a_copy() {
    let Some(leaf) = leaf() else { return };
    // Without address randomisation, both processes load the program at the same address.
    let start = || Busy::run(Command::new("setarch").arg("-R").arg(program()).arg("2"));
    let (mut one, mut other) = (start(), start());
    let mut copies = Copies::default();
    let Some(first) = promote_all(&one.target().unwrap(), leaf, &mut copies) else {
        return;
    };
    let Some(second) = promote_all(&other.target().unwrap(), leaf, &mut copies) else {
        return;
    };
    assert!(first.copied > 0 && first.shared == 0);
    assert_eq!((second.copied, second.shared), (0, first.copied));
    one.assert_well();
    other.assert_well();
    one.finish();
    other.finish();
}
