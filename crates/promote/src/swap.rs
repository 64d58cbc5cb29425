//! Changes the mappings of a process while it is stopped.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hugetext_host::{FileState, Tid, Watchdog, before_others, is_frozen};
use hugetext_leaf::Span;
use nix::sys::signal::{SigSet, SigmaskHow};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{CallError, Caller, Place};
use crate::content::{Content, Join, Step};
use crate::error::SwapError;
use crate::maps::{Mapped, mapped};
use crate::pass::pass_files;
use crate::refusal::Refusal;
use crate::scratch::Scratch;
use crate::stop::Stopped;
use crate::target::Target;

/// A set of changes. Either all are made or none.
#[derive(Debug, Default)]
pub(crate) struct Change<'f> {
    /// The files that steps name.
    pub files: Vec<&'f File>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The windows to map as a whole after the steps.
    pub joins: Vec<Join>,
    /// The files whose content was compared before, by index in `files`, with their state at the
    /// comparison.
    pub compared: Vec<(usize, FileState)>,
    /// How long the process may stand still. Without a limit, the change is never given up for the
    /// time that it takes.
    pub limit: Option<Duration>,
    /// Whether pages that were written to may be replaced if they hold what is mapped instead. A
    /// uprobe that was removed leaves such a page.
    pub replaces_equal_pages: bool,
}

/// The largest number of files in one message to a process (SCM_MAX_FD, include/net/scm.h).
pub(crate) const MAX_FILES: usize = 253;

/// The cost of a change for the process.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct Pause {
    /// Time from the first interruption until all threads were released, which is at once.
    #[serde(rename = "total_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub total: Duration,
    /// Time from the first interruption until all threads had stopped. It is a part of `total`.
    #[serde(rename = "stopping_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub stopping: Duration,
    /// Number of threads stopped.
    pub threads: usize,
}

/// Stops the process, makes the change, checks it, and releases the process. After an error, the
/// process continues unchanged unless the error says otherwise.
pub(crate) fn swap(target: &Target, change: &Change<'_>) -> Result<Pause, SwapError> {
    // A frozen thread can be stopped, but makes no injected call.
    if is_frozen(target.pid()) {
        return Err(SwapError::Frozen);
    }
    // The process would stand still for as long as a signal stops this one, and a signal that ended it would leave
    // the change half done.
    let watchdog = Watchdog::begin(target.pid()).map_err(SwapError::Trace)?;
    let before = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_SETMASK)
        .map_err(|error| SwapError::Trace(error.into()))?;
    let outcome = std::thread::scope(|scope| scope.spawn(|| hurried(target, change)).join());
    let _ = before.thread_set_mask();
    drop(watchdog);
    let panicked = |_| Err(SwapError::Trace(io::Error::other("the tracer panicked")));
    outcome
        .unwrap_or_else(panicked)
        .map_err(|error| match error {
            SwapError::NoThread | SwapError::Asleep | SwapError::DidNotStop { .. }
                if is_frozen(target.pid()) =>
            {
                SwapError::Frozen
            }
            error => error,
        })
}

/// Runs a session in a thread of its own, because the end of that thread releases the process.
/// Waits for that end.
fn hurried(target: &Target, change: &Change<'_>) -> Result<Pause, SwapError> {
    before_others(None);
    // A tracer takes many naps.
    if let Some(nanosecond) = NonZeroU64::new(1) {
        let _ = rustix::thread::set_current_timer_slack(Some(nanosecond));
    }
    let tracer = OnceLock::new();
    let session = || {
        tracer.get_or_init(Tid::own);
        in_session(target, change)
    };
    let outcome = std::thread::scope(|scope| scope.spawn(session).join());
    if let Some(thread) = tracer.get() {
        wait_for_end(*thread);
    }
    let session = outcome.map_err(|_| SwapError::Trace(io::Error::other("the tracer panicked")))?;
    session.map(|session| Pause {
        total: session.since.elapsed(),
        stopping: session.stopping,
        threads: session.threads,
    })
}

/// Waits until a thread of this process has ended. Joining it can return a moment before the
/// kernel detaches the threads that it traced (kernel/exit.c: exit_mm() comes before
/// exit_notify()).
fn wait_for_end(thread: Tid) {
    /// Longer than any scheduler lets a thread wait.
    const PATIENCE: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let entry = format!("/proc/self/task/{thread}");
    while fs::exists(&entry).unwrap_or(false) && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
}

/// The result of a session that succeeded.
struct Session {
    since: Instant,
    stopping: Duration,
    threads: usize,
}

fn in_session(target: &Target, change: &Change<'_>) -> Result<Session, SwapError> {
    // The search takes long with many mappings, so it comes before the stop.
    let place = Place::find(target).map_err(Refusal::from)?;
    let stopped = Stopped::stop(target, change.limit)?;
    if stopped.is_asleep() {
        return Err(SwapError::Asleep);
    }
    let stopping = stopped.since.elapsed();
    let threads = stopped.threads();
    change.check_before(target)?;
    stopped.keep_limit(Duration::ZERO)?;
    let mut caller = Caller::borrow(stopped.target, &stopped.registers(), place)?;
    change.make(&stopped, &mut caller)?;
    drop(caller);
    Ok(Session {
        since: stopped.since,
        stopping,
        threads,
    })
}

impl Change<'_> {
    /// Checks that the process still is as it was when the change was planned.
    fn check_before(&self, target: &Target) -> Result<(), SwapError> {
        let maps = self.mapped(target)?;
        for step in &self.steps {
            if !step.before.is_shown(&maps, step.addresses) {
                return Err(SwapError::Moved {
                    at: step.addresses.start,
                });
            }
        }
        let content: Vec<Span> = self.content().collect();
        let changed = changed(target, &content).map_err(Refusal::from)?;
        let equal = |page: &Span| self.replaces_equal_pages && self.is_equal(target, *page);
        if let Some(page) = changed.iter().find(|page| !equal(page)) {
            return Err(SwapError::Changed { at: page.start });
        }
        for (index, state) in &self.compared {
            let file = self.files.get(*index).ok_or(SwapError::FileChanged)?;
            let now = file.metadata().map(|metadata| FileState::of(&metadata));
            if now.ok() != Some(*state) {
                return Err(SwapError::FileChanged);
            }
        }
        Ok(())
    }

    /// Whether the process holds at `pages` what the file holds that is to be mapped there. All
    /// threads wait, so only a few pages are compared.
    fn is_equal(&self, target: &Target, pages: Span) -> bool {
        const MOST: u64 = 1 << 20;
        let step = self
            .steps
            .iter()
            .find(|step| step.addresses.contains(pages.start));
        let Some(step) = step.filter(|_| pages.len() <= MOST) else {
            return false;
        };
        let Content::File { file, offset, .. } = step.after else {
            return false;
        };
        let (mut memory, mut there) =
            (vec![0; pages.len() as usize], vec![0; pages.len() as usize]);
        let at = offset + (pages.start - step.addresses.start);
        let file = self.files.get(file);
        file.is_some_and(|file| read_padded(file, at, &mut there).is_ok())
            && target.read(pages.start, &mut memory).is_ok()
            && memory == there
    }

    /// The mappings at the addresses of the steps.
    fn mapped(&self, target: &Target) -> Result<Vec<Mapped>, SwapError> {
        let places = self.steps.iter().map(|step| step.addresses);
        Ok(mapped(target, places).map_err(Refusal::from)?)
    }

    /// The addresses of the text and the data that is to be replaced.
    fn content(&self) -> impl Iterator<Item = Span> {
        let steps = self.steps.iter().filter(|step| step.replaces_content());
        steps.map(|step| step.addresses)
    }

    /// Makes the change.
    fn make(&self, stopped: &Stopped<'_>, caller: &mut Caller<'_>) -> Result<(), SwapError> {
        let scratch = Scratch::map(caller)?;
        let passed = pass_files(caller, &scratch, &self.files);
        let outcome = match &passed {
            Ok(fds) => self.take_steps(stopped, caller, fds),
            Err(_) => Ok(()),
        };
        for (index, fd) in passed.iter().flatten().enumerate() {
            scratch.close(caller, index, *fd);
        }
        scratch.unmap(caller);
        passed?;
        outcome
    }

    /// Takes all steps and checks the result. After a failure it undoes the steps taken, the last
    /// one first.
    fn take_steps(
        &self,
        stopped: &Stopped<'_>,
        caller: &mut Caller<'_>,
        fds: &[u64],
    ) -> Result<(), SwapError> {
        let mut taken = 0;
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        let failure = loop {
            // Undoing takes as long as the steps took. The next step may take as long as the longest
            // one, and so may undoing it.
            if let Err(error) = stopped.keep_limit(begun.elapsed() + 2 * longest) {
                break error;
            }
            let Some(step) = self.steps.get(taken) else {
                let joined = self.join(caller, fds);
                match joined.and_then(|()| self.check_after(caller.target())) {
                    Ok(()) => return Ok(()),
                    Err(error) => break error,
                }
            };
            let step_begun = Instant::now();
            match step
                .after
                .establish(caller, fds, step.addresses, &step.before)
            {
                Ok(()) => {
                    taken += 1;
                    longest = longest.max(step_begun.elapsed());
                }
                Err(error) => break SwapError::call("mmap")(error),
            }
        };
        // The failed step may have unmapped memory before it failed (mm/vma.c before 6.12), so it
        // is undone too. A step where nothing was mapped has replaced nothing.
        let failed = self.steps.get(taken);
        let failed = failed.filter(|step| step.before != Content::Nothing);
        let undo = self.steps.iter().take(taken).chain(failed).rev();
        for step in undo {
            let undone = step
                .before
                .establish(caller, fds, step.addresses, &step.after);
            // At the limit of mappings, the kernel refuses to undo a step that it has not taken.
            if let Err(CallError::Refused(error) | CallError::Lost(error)) = undone
                && !is_undone(caller.target(), step)
            {
                let at = step.addresses.start;
                return Err(SwapError::NotUndone { at, error });
            }
        }
        Err(failure)
    }

    fn join(&self, caller: &mut Caller<'_>, fds: &[u64]) -> Result<(), SwapError> {
        for Join { addresses, content } in &self.joins {
            content
                .establish(caller, fds, *addresses, content)
                .map_err(SwapError::call("mmap"))?;
        }
        Ok(())
    }

    fn check_after(&self, target: &Target) -> Result<(), SwapError> {
        let maps = self.mapped(target)?;
        let wrong = self
            .steps
            .iter()
            .find(|step| !step.after.is_shown(&maps, step.addresses));
        wrong.map_or(Ok(()), |step| {
            let at = step.addresses.start;
            Err(SwapError::Unverified { at })
        })
    }
}

/// The pages of `content` that are no longer pages of their file. Every thread of the process waits
/// for the answer, so several threads of this process search in parallel.
fn changed(target: &Target, content: &[Span]) -> io::Result<Vec<Span>> {
    let Some((first, rest)) = content.split_first() else {
        return Ok(Vec::new());
    };
    std::thread::scope(|scope| {
        let look = |span: &Span| target.changed_pages(*span);
        let others: Vec<_> = rest
            .iter()
            .map(|span| scope.spawn(move || look(span)))
            .collect();
        let mut found = look(first)?;
        for other in others {
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            found.extend(other.join().unwrap_or_else(panicked)?);
        }
        Ok(found)
    })
}

/// Reads a file as a mapping shows it: zeroes beyond its end.
pub(crate) fn read_padded(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    bytes.fill(0);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(())
}

/// Whether the process maps at the addresses of a step what it mapped before the step.
fn is_undone(target: &Target, step: &Step) -> bool {
    let maps = mapped(target, std::iter::once(step.addresses));
    maps.is_ok_and(|maps| step.before.is_shown(&maps, step.addresses))
}

impl SwapError {
    pub(crate) fn call(name: &'static str) -> impl Fn(CallError) -> SwapError {
        move |error| match error {
            CallError::Refused(error) => SwapError::Refused { call: name, error },
            CallError::Lost(error) => SwapError::Trace(error),
        }
    }
}
