//! The work on one process: decide, collapse, remap, and check the result.

use std::time::{Duration, Instant};

use hugetext_host::{
    Advice, Copies, Mappings, Mounts, Outcome, Refusal, SwapError, Target, advise_process,
    process_name, promote, revert, text_mappings, while_busy,
};
use hugetext_leaf::{
    Backend, Cause, FileId, Filesystem, Leaf, Method, Promotion, Reason, Run, Span,
    collapse_obstacle, promotion,
};

use super::Job;
use super::report::{Process, Text, Unchanged};

/// How many times an attempt that failed temporarily is repeated.
const ATTEMPTS: u32 = 5;
/// The same for the collapse of one window.
const COLLAPSE_ATTEMPTS: u32 = 20;

/// How long a process is waited for that another hugetext has stopped, and how long at a time.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(2);

/// Why a process was left unchanged.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotDone {
    /// The process may not be changed, or an error occurred.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// Only collapsing was asked for, and the kernel cannot collapse any of the text.
    #[error("none of its text can be collapsed: {0}; --backend remap maps a copy instead")]
    Uncollapsible(Cause),
}

/// Carries out the change in one process.
pub(super) fn process(pid: i32, job: Job, copies: &mut Copies) -> Result<Process, NotDone> {
    let begun = Instant::now();
    let target = repeat(|| Target::open(pid).map_err(SwapError::from))?;
    let mut process = Process::new(pid, process_name(pid), text(pid)?);
    if job.revert {
        back(&target, job, &mut process)?;
    } else {
        forth(&target, job, copies, &mut process)?;
    }
    process.after = match text(pid) {
        Ok(after) => after,
        // A process may end at any time.
        Err(_) => process.before,
    };
    process.took = begun.elapsed();
    Ok(process)
}

fn forth(
    target: &Target,
    job: Job,
    copies: &mut Copies,
    process: &mut Process,
) -> Result<(), NotDone> {
    let mounts = Mounts::of_process(target.pid()).ok();
    let decide = |backend| {
        let mappings = target.mappings().map_err(refusal)?;
        let obstacle = |file| obstacle(target, &mappings, mounts.as_ref(), file, job);
        let plan = promotion(&mappings.vmas, job.leaf, backend, obstacle);
        Ok::<_, SwapError>((mappings, plan))
    };
    let (mappings, plan) = decide(job.backend)?;
    if let Some(cause) = uncollapsible(&plan) {
        return Err(NotDone::Uncollapsible(cause));
    }
    process.copies = mappings.copies().count();
    if job.dry_run {
        process.plan(&mappings, plan, copies);
        return Ok(());
    }
    let collapsible = with_method(&plan, Method::Collapse);
    let failed = collapse(target, &collapsible, job.leaf, &mut process.collapsed);
    if job.backend == Backend::CollapseOnly {
        process.left_by(&mappings, &plan);
        for (text, error) in failed {
            let reason = format!("the kernel cannot collapse it ({error})");
            process.left.push(Unchanged::new(&mappings, text, reason));
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
    job: Job,
) -> Option<Cause> {
    let filesystem = || {
        let (vma, path) = mappings.of_file(file)?;
        let opened = target.file_at(vma.addresses, path, file).ok()?;
        mounts?.page_cache(&opened, path?).ok()
    };
    collapse_obstacle(
        filesystem().unwrap_or(Filesystem::Other),
        job.kernel,
        job.leaf,
    )
}

/// Why a plan has no work, if the reason is that the kernel cannot collapse.
fn uncollapsible(plan: &Promotion) -> Option<Cause> {
    let mut causes = plan.left.iter().filter_map(|left| match left.reason {
        Reason::Uncollapsible(cause) => Some(cause),
        _ => None,
    });
    causes.next().filter(|_| plan.runs.is_empty())
}

fn with_method(plan: &Promotion, method: Method) -> Vec<Run> {
    let runs = plan.runs.iter().filter(|run| run.method == method);
    runs.copied().collect()
}

/// Collapses each window, then touches a byte of it so that a leaf maps it. The text that succeeded
/// is added to `done`; the rest is returned with the kernel's errors.
///
/// Each window is read first; [`hugetext_host::FileMapping::collapse`] gives the reason.
fn collapse(
    target: &Target,
    runs: &[Run],
    leaf: Leaf,
    done: &mut Vec<Span>,
) -> Vec<(Span, String)> {
    let mut failed: Vec<(Span, String)> = Vec::new();
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
                    join(done, text);
                }
                Err(error) => failed.push((text, crate::failure::plain(&error))),
            }
        }
    }
    failed
}

/// Adds a span to a list. A span that follows the last one is merged with it.
fn join(spans: &mut Vec<Span>, next: Span) {
    match spans.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => spans.push(next),
    }
}

fn back(target: &Target, job: Job, process: &mut Process) -> Result<(), SwapError> {
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
fn is_ours(thread: i32) -> bool {
    let name = process_name(thread);
    name.is_empty() || name == process_name(std::process::id().cast_signed())
}

fn refusal(error: std::io::Error) -> SwapError {
    Refusal::from(error).into()
}

fn text(pid: i32) -> Result<Text, SwapError> {
    let mappings = text_mappings(pid).map_err(|_| SwapError::from(Refusal::Gone))?;
    Ok(Text {
        mapped: mappings.iter().map(|text| text.addresses.len()).sum(),
        pmd_mapped: mappings.iter().map(|text| text.pmd_mapped).sum(),
    })
}

impl Process {
    fn plan(&mut self, mappings: &Mappings, plan: Promotion, copies: &mut Copies) {
        self.left_by(mappings, &plan);
        for run in plan.runs {
            match run.method {
                Method::Collapse => self.collapsed.push(run.text),
                Method::Remap => {
                    self.remapped.push(run.text);
                    match copies.plan(mappings, &run) {
                        true => self.copied += run.windows.len(),
                        false => self.shared += run.windows.len(),
                    }
                }
            }
        }
    }

    fn left_by(&mut self, mappings: &Mappings, plan: &Promotion) {
        for left in &plan.left {
            let unchanged = Unchanged::new(mappings, left.text, left.reason.to_string());
            self.left.push(unchanged);
        }
    }

    fn take(&mut self, mappings: &Mappings, outcome: Outcome) {
        self.remapped = outcome.done;
        self.copied = outcome.copied;
        self.shared = outcome.shared;
        self.pauses = outcome.pauses;
        for (text, reason) in outcome.left {
            self.left.push(Unchanged::new(mappings, text, reason));
        }
    }
}
