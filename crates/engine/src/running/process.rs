//! The work on one process: decide, collapse, remap, and check the result.

use std::time::{Duration, Instant};

use hugetext_host::{
    Advice, Mounts, Pid, Tid, advise_process, process_name, text_mappings, thread_name, while_busy,
};
use hugetext_leaf::verdict::{LeafUse, LeavesDoHarm};
use hugetext_leaf::{
    Backend, Cause, Completion, FileId, Filesystem, Leaf, Method, Promotion, PromotionPolicy,
    Reason, Run, Span, promotion,
};
use hugetext_promote::{
    Copies, Mappings, Probe, Refusal, SwapError, SwapOutcome, Target, probes, promote, revert,
};

use super::generated::{COLLAPSE_ATTEMPTS, collapse_generated};
use super::outcome::{PromoteError, PromoteRequest, PromotedProcess, TextBytes, UnchangedText};
use crate::error::plain;

/// How many times an attempt that failed temporarily is repeated.
const ATTEMPTS: u32 = 5;

/// How long a process is waited for that another hugetext has stopped, and how long at a time.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(2);

/// Carries out the change in one process.
pub fn promote_process(
    pid: Pid,
    job: PromoteRequest,
    copies: &mut Copies,
) -> Result<PromotedProcess, PromoteError> {
    let begun = Instant::now();
    if job.leaves != LeafUse::Leaves {
        return Err(PromoteError::Harmful(LeavesDoHarm));
    }
    let target = repeat(|| Target::open(pid).map_err(SwapError::from))?;
    let target = target.with_max_pause(job.max_pause);
    let mut process = PromotedProcess::new(pid, process_name(pid), text(pid)?);
    if job.generated {
        collapse_generated(&target, job.leaf, job.dry_run, &mut process)?;
    } else if job.revert {
        map_back(&target, job, &mut process)?;
    } else {
        map_onto_leaves(&target, job, copies, &mut process)?;
    }
    if let Ok(mappings) = target.mappings() {
        let words = probes(&mappings).into_iter().map(|probe| words(&probe));
        process.notes.extend(words);
    }
    process.after = match text(pid) {
        Ok(after) => after,
        // A process may end at any time.
        Err(_) => process.before,
    };
    process.took = begun.elapsed();
    Ok(process)
}

/// What became of a uprobe on promoted text.
fn words(probe: &Probe) -> String {
    let Probe {
        event,
        address,
        on_copy,
    } = probe;
    if *on_copy {
        format!("uprobe {event} at {address:#x} is set on the copy; --revert ends it")
    } else {
        format!(
            "uprobe {event} at {address:#x} is set on the program file, which is not mapped there: it \
             does not fire; --revert lets it"
        )
    }
}

fn map_onto_leaves(
    target: &Target,
    job: PromoteRequest,
    copies: &mut Copies,
    process: &mut PromotedProcess,
) -> Result<(), PromoteError> {
    let mounts = Mounts::of_process(target.pid()).ok();
    let plan_for = |mappings: &Mappings, backend, completion| {
        let obstacle = |file| obstacle(target, mappings, mounts.as_ref(), file, job);
        let policy = PromotionPolicy {
            leaf: job.leaf,
            backend,
            completion,
        };
        promotion(&mappings.vmas, policy, obstacle)
    };
    let decide = |backend| {
        let mappings = target.mappings().map_err(refusal)?;
        let plan = plan_for(&mappings, backend, job.completion);
        Ok::<_, SwapError>((mappings, plan))
    };
    let (mappings, plan) = decide(job.backend)?;
    if let Some(cause) = uncollapsible(&plan) {
        return Err(PromoteError::Uncollapsible(cause));
    }
    process.copies = mappings.copies().count();
    if job.dry_run {
        if job.backend != Backend::CollapseOnly {
            let merged = plan_for(&mappings, job.backend, Completion::ReadOnlyData);
            process.notes.extend(merging(&plan, &merged));
        }
        process.plan(&mappings, plan, job.leaf, copies);
        return Ok(());
    }
    let collapsible = with_method(&plan, Method::Collapse);
    let (done, failed) = collapse(target, &collapsible, job.leaf);
    process.collapsed = done;
    if job.backend == Backend::CollapseOnly {
        process.left_by(&mappings, &plan);
        for UncollapsedText { text, error } in failed {
            let reason = format!("the kernel cannot collapse it ({error})");
            process
                .left
                .push(UnchangedText::new(&mappings, text, reason));
        }
        return Ok(());
    }
    // What could not be collapsed is remapped; the rest is huge now.
    let outcome = repeat(|| {
        let (mappings, plan) = decide(Backend::RemapOnly)?;
        let outcome = promote(target, &mappings, &plan.runs, job.leaf, copies)?;
        Ok((mappings, plan, outcome))
    })?;
    let (mappings, plan, outcome) = outcome;
    process.left_by(&mappings, &plan);
    process.take(&mappings, outcome);
    Ok(())
}

/// Why the kernel does not collapse text of a file that the process maps; `None` if the kernel
/// does.
fn obstacle(
    target: &Target,
    mappings: &Mappings,
    mounts: Option<&Mounts>,
    file: FileId,
    job: PromoteRequest,
) -> Option<Cause> {
    let filesystem = || {
        let (vma, path) = mappings.of_file(file)?;
        let opened = target.file_at(vma.addresses, path, file).ok()?;
        mounts?.page_cache(&opened, path?).ok()
    };
    let filesystem = filesystem().unwrap_or(Filesystem::Other);
    hugetext_leaf::collapse(filesystem, job.kernel, job.leaf).refusal()
}

/// Why a plan has no work, if the reason is that the kernel cannot collapse.
fn uncollapsible(plan: &Promotion) -> Option<Cause> {
    let mut causes = plan.left.iter().filter_map(|left| match left.reason {
        Reason::Uncollapsible(cause) => Some(cause),
        _ => None,
    });
    causes.next().filter(|_| plan.runs.is_empty())
}

/// What merging read-only data with the text would add to a plan.
fn merging(plan: &Promotion, merged: &Promotion) -> Option<String> {
    let more = merged.promoted().saturating_sub(plan.promoted());
    let data: u64 = merged.runs.iter().map(Run::data).sum();
    (more > 0).then(|| {
        format!(
            "--merge would put {} KiB more of its text on huge pages, and make {} KiB of read-only data \
             executable",
            more >> 10,
            data >> 10
        )
    })
}

fn with_method(plan: &Promotion, method: Method) -> Vec<Run> {
    let runs = plan.runs.iter().filter(|run| run.method == method);
    runs.copied().collect()
}

/// Text that the kernel did not collapse, with its error.
struct UncollapsedText {
    text: Span,
    error: String,
}

/// Collapses each window, then touches a byte of it so that a leaf maps it. Returns the text that succeeded, and the
/// rest with the kernel's errors.
///
/// Each window is read first; [`hugetext_host::FileMapping::collapse`] gives the reason.
fn collapse(target: &Target, runs: &[Run], leaf: Leaf) -> (Vec<Span>, Vec<UncollapsedText>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut bytes = vec![0; leaf.bytes() as usize];
    for run in runs {
        for start in (run.windows.start..run.windows.end).step_by(leaf.bytes() as usize) {
            let window = Span::new(start, start + leaf.bytes());
            let text = window.intersect(&run.text);
            let _ = target.read(start, &mut bytes);
            let advise = || advise_process(target.pidfd(), &[window], Advice::Collapse);
            match while_busy(COLLAPSE_ATTEMPTS, advise) {
                Ok(_) => {
                    let _ = target.read(start, &mut [0]);
                    done.push(text);
                }
                Err(error) => failed.push(UncollapsedText {
                    text,
                    error: plain(&error),
                }),
            }
        }
    }
    (Span::joined(done), failed)
}

fn map_back(
    target: &Target,
    job: PromoteRequest,
    process: &mut PromotedProcess,
) -> Result<(), SwapError> {
    let mappings = target.mappings().map_err(refusal)?;
    process.copies = mappings.copies().count();
    if job.dry_run {
        let promoted: Vec<Span> = mappings.copies().map(|(vma, _)| vma.addresses).collect();
        process.remapped = promoted;
        return Ok(());
    }
    let (mappings, outcome) = repeat(|| {
        let mappings = target.mappings().map_err(refusal)?;
        let outcome = revert(target, &mappings)?;
        Ok((mappings, outcome))
    })?;
    process.take(&mappings, outcome);
    Ok(())
}

/// Repeats an attempt that failed because of what the process was doing just then, or because another
/// hugetext had stopped it, which takes milliseconds.
fn repeat<T>(mut attempt: impl FnMut() -> Result<T, SwapError>) -> Result<T, SwapError> {
    let begun = Instant::now();
    let mut left = ATTEMPTS;
    loop {
        match attempt() {
            Err(SwapError::Refusal(Refusal::Traced { by }))
                if begun.elapsed() < PATIENCE && is_ours(by) =>
            {
                std::thread::sleep(NAP);
                continue;
            }
            Err(
                SwapError::NoThread
                | SwapError::DidNotStop { .. }
                | SwapError::Moved { .. }
                | SwapError::Changed { .. }
                | SwapError::FileChanged,
            ) if left > 1 => left -= 1,
            outcome => return outcome,
        }
    }
}

/// Whether a thread is one of hugetext, or has ended since.
fn is_ours(thread: Tid) -> bool {
    let name = thread_name(thread);
    name.is_empty() || name == process_name(Pid::own())
}

fn refusal(error: std::io::Error) -> SwapError {
    Refusal::from(error).into()
}

fn text(pid: Pid) -> Result<TextBytes, SwapError> {
    let mut mappings = text_mappings(pid).map_err(Refusal::from)?;
    // The heaps of some runtimes, such as sbcl, are writable and executable files.
    mappings.retain(|text| !(text.perms.write && text.path.is_some()));
    Ok(TextBytes {
        mapped: mappings.iter().map(|text| text.addresses.len()).sum(),
        pmd_mapped: mappings.iter().map(|text| text.pmd_mapped).sum(),
    })
}

impl PromotedProcess {
    fn plan(&mut self, mappings: &Mappings, plan: Promotion, leaf: Leaf, copies: &mut Copies) {
        self.left_by(mappings, &plan);
        self.data = plan.runs.iter().map(Run::data).sum();
        for run in plan.runs {
            match run.method {
                Method::Collapse => self.collapsed.push(run.text),
                Method::Remap => {
                    self.remapped.push(run.text);
                    if copies.plan(mappings, &run, leaf) {
                        self.copied += run.mapped().len();
                    } else {
                        self.shared += run.mapped().len();
                    }
                }
            }
        }
    }

    fn left_by(&mut self, mappings: &Mappings, plan: &Promotion) {
        for left in &plan.left {
            let unchanged = UnchangedText::new(mappings, left.text, left.reason.to_string());
            self.left.push(unchanged);
            // A copy maps less than a window behind it, too, and what is changed not at all.
            let lies_behind = |run: &Run| {
                let behind = run.mapped().end <= left.text.start;
                run.method == Method::Remap && run.file == left.file && behind
            };
            if plan.runs.iter().any(lies_behind) {
                let Span { start, end } = left.text;
                self.notes.push(format!(
                    "from {start:#x} to {end:#x}, eu-stack -p shows names of other functions, and gdb -p the right ones"
                ));
            }
        }
    }

    fn take(&mut self, mappings: &Mappings, outcome: SwapOutcome) {
        // Some that collapsed may lie behind others that did not, and be copied with them.
        self.collapsed = Span::without(std::mem::take(&mut self.collapsed), &outcome.done);
        self.remapped = outcome.done;
        self.copied = outcome.copied;
        self.shared = outcome.shared;
        self.data = outcome.data;
        self.pauses = outcome.pauses;
        for at in outcome.probed {
            self.notes
                .push(format!("a uprobe at {at:#x} fires from now on"));
        }
        for left in outcome.left {
            let unchanged = UnchangedText::new(mappings, left.addresses, left.reason);
            self.left.push(unchanged);
        }
    }
}
