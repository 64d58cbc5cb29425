//! Promotes processes that run hot text in small pages, where a rule of the administrator allows it, and
//! maps their files again when memory is short or the daemon ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hugetext_engine::running::{PromoteRequest, PromotedProcess, promote_process};
use hugetext_engine::{HostContext, plain};
use hugetext_host::{Done, Pid};
use hugetext_leaf::verdict::LeafUse;
use hugetext_leaf::{Backend, Completion};
use hugetext_promote::{Copies, give_back_unused};

use crate::processor::ProcessTicks;
use crate::work_queue::{Job, WorkQueue};

/// A change that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest stop for a promotion. One that needs a longer stop is undone.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// How often a process is asked to take its files back at the end of the daemon. It may be about to execute
/// another program, or another tracer may hold it for a moment.
const TRIES: usize = 5;
/// The most processes that are known.
const MOST: usize = 4096;

thread_local! {
    /// Copies that processes share. They belong to the thread that makes all changes.
    static COPIES: RefCell<Copies> = RefCell::default();
}

/// What is done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Promote,
    Revert,
}

/// A change of one process.
#[derive(Debug, Clone, Copy)]
struct ChangeJob {
    pid: Pid,
    /// When it started, in ticks. Another process may get its number.
    started: u64,
    change: Change,
    /// Whether others wait behind it, which may share its copies.
    followed: bool,
}

impl Job for ChangeJob {
    type Target = (Pid, u64);

    fn target(&self) -> (Pid, u64) {
        (self.pid, self.started)
    }

    fn begins(&mut self, is_followed: bool) {
        self.followed = is_followed;
    }
}

impl ChangeJob {
    fn new(pid: Pid, started: u64, change: Change) -> ChangeJob {
        ChangeJob {
            pid,
            started,
            change,
            followed: false,
        }
    }
}

/// What is known of a process.
#[derive(Debug)]
enum Stage {
    /// It waits for a change.
    Wanted,
    /// It runs from huge leaves; copies of this many bytes were made for it.
    Promoted(u64),
    /// There was nothing to gain, or its files are mapped again.
    Left,
    /// It could not be promoted.
    Failed,
}

#[derive(Debug)]
struct KnownProcess {
    started: u64,
    stage: Stage,
}

/// How a change ended.
#[derive(Debug)]
pub enum PromotionNews {
    /// A process runs from huge leaves.
    Promoted {
        /// The process.
        pid: Pid,
        /// Its name.
        name: String,
        /// Bytes of text.
        bytes: u64,
    },
    /// A process runs from its files again.
    Reverted {
        /// The process.
        pid: Pid,
        /// Its name.
        name: String,
        /// Bytes of text.
        bytes: u64,
    },
    /// It could not be changed.
    Failed {
        /// The process.
        pid: Pid,
        /// Why.
        reason: String,
    },
}

/// Changes one process after the other.
#[derive(Debug)]
pub(crate) struct Promoter {
    work: WorkQueue<ChangeJob, Result<PromotedProcess, String>>,
    known: BTreeMap<Pid, KnownProcess>,
    /// A process that is being promoted, and whose copies nobody wants any more.
    unwanted: Option<Pid>,
}

impl Promoter {
    /// Changes nothing yet; calls `wake` when a change has ended.
    pub(crate) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Promoter {
        Promoter::by(change, wake)
    }

    fn by(
        change: impl Fn(ChangeJob) -> Result<PromotedProcess, String> + Send + Sync + 'static,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Promoter {
        Promoter {
            work: WorkQueue::new(usize::MAX, LIMIT, wake, change),
            known: BTreeMap::new(),
            unwanted: None,
        }
    }

    /// Bytes of memory of the copies that were made for processes that live.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.known.values().map(|known| match known.stage {
            Stage::Promoted(bytes) => bytes,
            _ => 0,
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Processes that run from huge leaves because of it.
    pub(crate) fn promoted(&self) -> usize {
        self.promoted_processes().count()
    }

    fn promoted_processes(&self) -> impl Iterator<Item = (Pid, u64)> {
        let is_promoted = |known: &KnownProcess| matches!(known.stage, Stage::Promoted(_));
        self.known
            .iter()
            .filter(move |(_, known)| is_promoted(known))
            .map(|(pid, known)| (*pid, known.started))
    }

    /// Wants the promotion of a process, unless it was tried a short time ago.
    pub(crate) fn want(&mut self, pid: Pid, now: Duration) {
        let Some(ticks) = ProcessTicks::of(pid) else {
            return;
        };
        let is_due = match self.known.get(&pid) {
            Some(known) if known.started == ticks.started => {
                let is_over = !self.work.is_delayed(&(pid, ticks.started), now);
                is_over && matches!(known.stage, Stage::Failed)
            }
            _ => self.known.len() < MOST,
        };
        if is_due {
            self.queue(pid, ticks.started, Change::Promote);
        }
    }

    /// Has the files of all processes mapped again, and promotes none of those that wait.
    pub(crate) fn give_back(&mut self) {
        let reverts = self.reverts();
        self.work.replace(reverts);
        let is_promotion = |job: &&ChangeJob| job.change == Change::Promote;
        let current = self.work.running();
        self.unwanted = current.filter(is_promotion).map(|job| job.pid);
        // What has not begun may be wanted again later.
        let current = current.map(|job| job.pid);
        let work = &self.work;
        self.known.retain(|pid, known| {
            let target = (*pid, known.started);
            let waits = Some(*pid) == current || work.is_waiting(&target);
            waits || !matches!(known.stage, Stage::Wanted)
        });
    }

    /// What has the files of all promoted processes mapped again.
    fn reverts(&self) -> Vec<ChangeJob> {
        let promoted = self.promoted_processes();
        let jobs = promoted.map(|(pid, started)| ChangeJob::new(pid, started, Change::Revert));
        jobs.collect()
    }

    fn queue(&mut self, pid: Pid, started: u64, change: Change) {
        // The copies of a process count until its files are mapped again.
        if change == Change::Promote {
            let known = self.of(pid, started);
            known.stage = Stage::Wanted;
        }
        self.work.add(ChangeJob::new(pid, started, change));
    }

    /// What is known of a process; nothing of an earlier one that had its number.
    fn of(&mut self, pid: Pid, started: u64) -> &mut KnownProcess {
        let new = || KnownProcess {
            started,
            stage: Stage::Left,
        };
        let known = self.known.entry(pid).or_insert_with(new);
        if known.started != started {
            *known = new();
        }
        known
    }

    /// Begins the next change.
    pub(crate) fn begin(&mut self) {
        if self.work.running().is_none() {
            self.unwanted = None;
        }
        self.work.begin(|_| true);
    }

    /// The end of a change, if one has ended.
    pub(crate) fn finish(&mut self, now: Duration) -> Option<PromotionNews> {
        let (job, done) = self.work.finish()?;
        let result = match done {
            Done::Result(result) => result,
            Done::GivenUp => Err("it did not end in time".to_owned()),
        };
        self.ended(job, result, now)
    }

    fn ended(
        &mut self,
        job: ChangeJob,
        result: Result<PromotedProcess, String>,
        now: Duration,
    ) -> Option<PromotionNews> {
        let pid = job.pid;
        let process = match result {
            Ok(process) => process,
            Err(reason) => {
                self.work.delay(job.target(), now);
                let known = self.of(pid, job.started);
                // A process whose files could not be mapped again still has its copies.
                if job.change == Change::Promote {
                    known.stage = Stage::Failed;
                }
                return Some(PromotionNews::Failed { pid, reason });
            }
        };
        self.work.forget(&job.target());
        let known = self.of(pid, job.started);
        let (name, bytes) = (process.name.clone(), process.changed());
        match job.change {
            Change::Promote if bytes == 0 => {
                known.stage = Stage::Left;
                None
            }
            Change::Promote => {
                known.stage = Stage::Promoted(process.copied);
                if self.unwanted.take() == Some(pid) {
                    self.queue(pid, job.started, Change::Revert);
                }
                Some(PromotionNews::Promoted { pid, name, bytes })
            }
            Change::Revert => {
                known.stage = Stage::Left;
                Some(PromotionNews::Reverted { pid, name, bytes })
            }
        }
    }

    /// Forgets the processes that have ended.
    pub(crate) fn forget_ended(&mut self) {
        let before = self.promoted();
        self.known.retain(|pid, known| lives(*pid, known.started));
        let known = &self.known;
        self.work.retain(|(pid, started)| {
            let process = known.get(pid);
            process.is_some_and(|process| process.started == *started)
        });
        if self.promoted() < before {
            give_back_unused();
        }
    }

    /// Maps the files of all processes again, before it returns. For the end of the daemon.
    pub(crate) fn undo(&mut self) -> Vec<PromotionNews> {
        self.work.clear();
        let jobs = self.reverts().into_iter();
        let ended = jobs.filter_map(|job| self.ended(job, insist(job), Duration::ZERO));
        ended.collect()
    }
}

/// Whether a process lives, and no other has its number.
fn lives(pid: Pid, started: u64) -> bool {
    ProcessTicks::of(pid).is_some_and(|ticks| ticks.started == started)
}

/// Makes a change, and again if it failed.
fn insist(job: ChangeJob) -> Result<PromotedProcess, String> {
    let mut result = change(job);
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        result = change(job);
    }
    result
}

fn change(job: ChangeJob) -> Result<PromotedProcess, String> {
    let host = HostContext::with_huge_pages().map_err(plain)?;
    let revert = job.change == Change::Revert;
    let request = PromoteRequest {
        kernel: host.kernel,
        leaf: host.leaf,
        backend: Backend::Both,
        completion: Completion::Unused,
        dry_run: false,
        revert,
        generated: false,
        // What was promised is to give copies back. Mapping a file again copies nothing, so it takes no long stop.
        max_pause: (!revert).then_some(MAX_PAUSE),
        // Nobody wants a promotion where leaves save nothing.
        leaves: LeafUse::Leaves,
    };
    if !lives(job.pid, job.started) {
        return Err("it has ended".to_owned());
    }
    let changed = COPIES.with_borrow_mut(|copies| {
        let changed = promote_process(job.pid, request, copies);
        // A promotion has several stops. If one fails, those before it are undone as well.
        if changed.is_err() && !revert {
            let back = PromoteRequest {
                revert: true,
                max_pause: None,
                ..request
            };
            // Why the promotion failed is told. A process that cannot be reverted either has ended, as a rule.
            let _ = promote_process(job.pid, back, copies);
        }
        // Where copies have no path, nothing tells when nobody maps them any more. The daemon holds none then.
        if !job.followed {
            copies.forget_in_memory();
        }
        changed
    });
    if revert {
        give_back_unused();
    }
    changed.map_err(plain)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use hugetext_engine::running::TextBytes;
    use hugetext_leaf::Span;

    use super::*;

    const COPIED: u64 = 4 << 20;

    /// A change of this process, which lives.
    fn job(change: Change) -> ChangeJob {
        let pid = Pid::own();
        let started = ProcessTicks::of(pid).unwrap().started;
        ChangeJob::new(pid, started, change)
    }

    /// What a change of it gives.
    fn changed() -> Result<PromotedProcess, String> {
        let text = TextBytes {
            mapped: COPIED,
            pmd_mapped: 0,
        };
        Ok(PromotedProcess {
            remapped: vec![Span::new(0, COPIED)],
            copied: COPIED,
            ..PromotedProcess::new(Pid::own(), "it".to_owned(), text)
        })
    }

    fn promoter() -> Promoter {
        Promoter::new(Arc::new(|| {}))
    }

    #[test]
    fn copies_count_until_the_files_are_mapped_again() {
        let mut promoter = promoter();
        promoter.ended(job(Change::Promote), changed(), Duration::ZERO);
        assert_eq!((promoter.promoted(), promoter.bytes()), (1, COPIED));
        // What cannot be reverted still has its copies, and is tried again.
        let failed = Err("asleep".to_owned());
        promoter.ended(job(Change::Revert), failed, Duration::ZERO);
        assert_eq!(promoter.bytes(), COPIED);
        promoter.give_back();
        assert_eq!(promoter.work.waiting().len(), 1);
        promoter.ended(job(Change::Revert), changed(), Duration::ZERO);
        assert_eq!((promoter.promoted(), promoter.bytes()), (0, 0));
    }

    #[test]
    fn what_was_promoted_while_memory_became_short_is_reverted() {
        let (ended, woken) = channel();
        let wake = move || ended.send(()).unwrap();
        let mut promoter = Promoter::by(|_| changed(), Arc::new(wake));
        promoter.want(Pid::own(), Duration::ZERO);
        promoter.begin();
        promoter.give_back();
        woken.recv().unwrap();
        let news = promoter.finish(Duration::ZERO);
        assert!(matches!(news, Some(PromotionNews::Promoted { .. })));
        let next = promoter.work.waiting().next().map(|job| job.change);
        assert_eq!(next, Some(Change::Revert));
    }

    #[test]
    fn a_failure_is_tried_again_later_and_success_never() {
        let mut promoter = promoter();
        let pid = Pid::own();
        let failed = Err("busy".to_owned());
        promoter.ended(job(Change::Promote), failed, Duration::ZERO);
        promoter.want(pid, Duration::ZERO);
        assert_eq!(promoter.work.waiting().len(), 0);
        promoter.want(pid, Duration::from_secs(60));
        assert_eq!(promoter.work.waiting().len(), 1);
        promoter.work.clear();
        promoter.ended(job(Change::Promote), changed(), Duration::ZERO);
        promoter.want(pid, Duration::from_secs(3600));
        assert_eq!(promoter.work.waiting().len(), 0);
    }
}
