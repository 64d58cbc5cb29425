//! Promotes processes that run hot text in small pages, where a rule of the administrator allows it, and
//! maps their files again when memory is short or the daemon ends.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hugetext_engine::running::{PromoteRequest, PromotedProcess, promote_process};
use hugetext_engine::{HostContext, plain};
use hugetext_host::{Done, Pid, Worker};
use hugetext_leaf::{Backend, Completion};
use hugetext_promote::{Copies, give_back_unused};

use crate::holder::Wait;
use crate::processor::ProcessTicks;

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

#[derive(Debug, Clone, Copy)]
struct Job {
    pid: Pid,
    /// When it started, in ticks. Another process may get its number.
    started: u64,
    change: Change,
    /// Whether others wait behind it, which may share its copies.
    followed: bool,
}

impl Job {
    fn new(pid: Pid, started: u64, change: Change) -> Job {
        Job {
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
    /// When it may be tried again after a failure.
    wait: Option<Wait>,
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
pub struct Promoter {
    worker: Worker<Job, Result<PromotedProcess, String>>,
    current: Option<Job>,
    wanted: VecDeque<Job>,
    known: BTreeMap<Pid, KnownProcess>,
    /// A process that is being promoted, and whose copies nobody wants any more.
    unwanted: Option<Pid>,
}

impl Promoter {
    /// Changes nothing yet; calls `wake` when a change has ended.
    pub fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Promoter {
        Promoter {
            worker: Worker::new(LIMIT, wake, change),
            current: None,
            wanted: VecDeque::new(),
            known: BTreeMap::new(),
            unwanted: None,
        }
    }

    /// Bytes of memory of the copies that were made for processes that live.
    pub fn bytes(&self) -> u64 {
        let bytes = self.known.values().map(|known| match known.stage {
            Stage::Promoted(bytes) => bytes,
            _ => 0,
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Processes that run from huge leaves because of it.
    pub fn promoted(&self) -> usize {
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
    pub fn want(&mut self, pid: Pid, now: Duration) {
        let Some(ticks) = ProcessTicks::of(pid) else {
            return;
        };
        let is_due = match self.known.get(&pid) {
            Some(known) if known.started == ticks.started => {
                let is_over = known.wait.as_ref().is_none_or(|wait| wait.until <= now);
                is_over && matches!(known.stage, Stage::Failed)
            }
            _ => self.known.len() < MOST,
        };
        if is_due {
            self.queue(pid, ticks.started, Change::Promote);
        }
    }

    /// Has the files of all processes mapped again, and promotes none of those that wait.
    pub fn give_back(&mut self) {
        self.wanted = self.reverts().into();
        let is_promotion = |job: &Job| job.change == Change::Promote;
        self.unwanted = self.current.filter(is_promotion).map(|job| job.pid);
        // What has not begun may be wanted again later.
        let current = self.current.map(|job| job.pid);
        let wanted = &self.wanted;
        self.known.retain(|pid, known| {
            let waits = Some(*pid) == current || wanted.iter().any(|job| job.pid == *pid);
            waits || !matches!(known.stage, Stage::Wanted)
        });
    }

    /// What has the files of all promoted processes mapped again.
    fn reverts(&self) -> Vec<Job> {
        let promoted = self.promoted_processes();
        let jobs = promoted.map(|(pid, started)| Job::new(pid, started, Change::Revert));
        jobs.collect()
    }

    fn queue(&mut self, pid: Pid, started: u64, change: Change) {
        // The copies of a process count until its files are mapped again.
        if change == Change::Promote {
            let known = self.of(pid, started);
            known.stage = Stage::Wanted;
        }
        self.wanted.push_back(Job::new(pid, started, change));
    }

    /// What is known of a process; nothing of an earlier one that had its number.
    fn of(&mut self, pid: Pid, started: u64) -> &mut KnownProcess {
        let new = || KnownProcess {
            started,
            stage: Stage::Left,
            wait: None,
        };
        let known = self.known.entry(pid).or_insert_with(new);
        if known.started != started {
            *known = new();
        }
        known
    }

    /// Begins the next change.
    pub fn begin(&mut self) {
        if self.worker.is_free()
            && let Some(mut job) = self.wanted.pop_front()
        {
            job.followed = !self.wanted.is_empty();
            self.current = Some(job);
            self.unwanted = None;
            self.worker.begin(job);
        }
    }

    /// The end of a change, if one has ended.
    pub fn finish(&mut self, now: Duration) -> Option<PromotionNews> {
        let done = self.worker.done()?;
        let job = self.current.take()?;
        let result = match done {
            Done::Result(result) => result,
            Done::GivenUp => Err("it did not end in time".to_owned()),
        };
        self.ended(job, result, now)
    }

    fn ended(
        &mut self,
        job: Job,
        result: Result<PromotedProcess, String>,
        now: Duration,
    ) -> Option<PromotionNews> {
        let pid = job.pid;
        let known = self.of(pid, job.started);
        let process = match result {
            Ok(process) => process,
            Err(reason) => {
                known.wait = Some(Wait::after(known.wait.as_ref(), now));
                // A process whose files could not be mapped again still has its copies.
                if job.change == Change::Promote {
                    known.stage = Stage::Failed;
                }
                return Some(PromotionNews::Failed { pid, reason });
            }
        };
        known.wait = None;
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
    pub fn forget_ended(&mut self) {
        let before = self.promoted();
        self.known.retain(|pid, known| lives(*pid, known.started));
        if self.promoted() < before {
            give_back_unused();
        }
    }

    /// Maps the files of all processes again, before it returns. For the end of the daemon.
    pub fn undo(&mut self) -> Vec<PromotionNews> {
        self.wanted.clear();
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
fn insist(job: Job) -> Result<PromotedProcess, String> {
    let mut result = change(job);
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        result = change(job);
    }
    result
}

fn change(job: Job) -> Result<PromotedProcess, String> {
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
    use hugetext_engine::running::TextBytes;
    use hugetext_leaf::Span;

    use super::*;

    const COPIED: u64 = 4 << 20;

    /// A change of this process, which lives.
    fn job(change: Change) -> Job {
        let pid = Pid::own();
        let started = ProcessTicks::of(pid).unwrap().started;
        Job::new(pid, started, change)
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
        assert_eq!(promoter.wanted.len(), 1);
        promoter.ended(job(Change::Revert), changed(), Duration::ZERO);
        assert_eq!((promoter.promoted(), promoter.bytes()), (0, 0));
    }

    #[test]
    fn what_was_promoted_while_memory_became_short_is_reverted() {
        let mut promoter = promoter();
        promoter.current = Some(job(Change::Promote));
        promoter.give_back();
        promoter.ended(job(Change::Promote), changed(), Duration::ZERO);
        let next = promoter.wanted.front().map(|job| job.change);
        assert_eq!(next, Some(Change::Revert));
    }

    #[test]
    fn a_failure_is_tried_again_later_and_success_never() {
        let mut promoter = promoter();
        let pid = Pid::own();
        let failed = Err("busy".to_owned());
        promoter.ended(job(Change::Promote), failed, Duration::ZERO);
        promoter.want(pid, Duration::ZERO);
        assert_eq!(promoter.wanted.len(), 0);
        promoter.want(pid, Duration::from_secs(60));
        assert_eq!(promoter.wanted.len(), 1);
        promoter.wanted.clear();
        promoter.ended(job(Change::Promote), changed(), Duration::ZERO);
        promoter.want(pid, Duration::from_secs(3600));
        assert_eq!(promoter.wanted.len(), 0);
    }
}
