//! Work that may take long, or forever: what waits, the one job that runs in a thread that can be given up, and until
//! when nothing is tried again that failed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hugetext_host::{Done, Worker};

/// After a failure, the next try waits this long, and twice as long after each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// Until when something is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Until when.
    pub(crate) until: Duration,
    tries: u32,
}

impl Wait {
    /// The next wait after `before`, twice as long.
    pub(crate) fn after(before: Option<&Wait>, now: Duration) -> Wait {
        let tries = before.map_or(0, |wait| wait.tries);
        let wait = FIRST_WAIT
            .saturating_mul(1 << tries.min(11))
            .min(LONGEST_WAIT);
        Wait {
            until: now.saturating_add(wait),
            tries: tries.saturating_add(1),
        }
    }
}

/// Work of one kind.
pub(crate) trait Job: Clone + Send + 'static {
    /// What it is done to, which waits once.
    type Target: Ord + Clone + fmt::Debug;

    /// What this job is done to.
    fn target(&self) -> Self::Target;

    /// It begins; whether others wait behind it.
    fn begins(&mut self, _is_followed: bool) {}
}

/// One kind of work, done one job after the other.
pub(crate) struct WorkQueue<J: Job, R> {
    worker: Worker<J, R>,
    running: Option<J>,
    waiting: VecDeque<J>,
    /// The most jobs that wait.
    most: usize,
    /// What failed, and until when it is not tried again.
    delays: BTreeMap<J::Target, Wait>,
}

impl<J: Job, R> fmt::Debug for WorkQueue<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.len();
        write!(f, "WorkQueue {{ {:?}, {waiting} wait }}", self.worker)
    }
}

impl<J: Job, R: Send + 'static> WorkQueue<J, R> {
    /// Does nothing yet. Each job is done by `run`, and given up after `limit`; `wake` is called when one has ended. At
    /// most `most` wait.
    pub(crate) fn new(
        most: usize,
        limit: Duration,
        wake: Arc<dyn Fn() + Send + Sync>,
        run: impl Fn(J) -> R + Send + Sync + 'static,
    ) -> WorkQueue<J, R> {
        WorkQueue {
            worker: Worker::new(limit, wake, run),
            running: None,
            waiting: VecDeque::new(),
            most,
            delays: BTreeMap::new(),
        }
    }

    /// Lets a job wait for its turn, unless one on the same target waits already, or too many do.
    pub(crate) fn add(&mut self, job: J) {
        if self.has_room() && !self.is_waiting(&job.target()) {
            self.waiting.push_back(job);
        }
    }

    /// Whether another job may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < self.most
    }

    /// These jobs wait, and no others.
    pub(crate) fn replace(&mut self, jobs: impl IntoIterator<Item = J>) {
        self.waiting = jobs.into_iter().take(self.most).collect();
    }

    /// Nothing waits any more. What runs goes on.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The jobs that wait, the next first.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = &J> {
        self.waiting.iter()
    }

    /// Whether a job on this target waits.
    pub(crate) fn is_waiting(&self, target: &J::Target) -> bool {
        self.waiting.iter().any(|job| job.target() == *target)
    }

    /// The job that runs.
    pub(crate) fn running(&self) -> Option<&J> {
        self.running.as_ref()
    }

    /// Drops the jobs in front that are not wanted, and begins the next one if nothing runs.
    pub(crate) fn begin(&mut self, is_wanted: impl Fn(&J) -> bool) {
        while self.waiting.front().is_some_and(|job| !is_wanted(job)) {
            self.waiting.pop_front();
        }
        if self.worker.is_free()
            && let Some(mut job) = self.waiting.pop_front()
        {
            job.begins(!self.waiting.is_empty());
            self.running = Some(job.clone());
            self.worker.begin(job);
        }
    }

    /// The job that has ended or was given up, if one has, and how.
    pub(crate) fn finish(&mut self) -> Option<(J, Done<R>)> {
        let done = self.worker.done()?;
        Some((self.running.take()?, done))
    }

    /// Threads that were given up and have not ended.
    pub(crate) fn lost(&self) -> usize {
        self.worker.lost()
    }

    /// Work on a target failed: it is not tried again before some time has passed, each time for longer.
    pub(crate) fn delay(&mut self, target: J::Target, now: Duration) {
        let wait = Wait::after(self.delays.get(&target), now);
        self.delays.insert(target, wait);
    }

    /// Whether a target is not to be tried yet.
    pub(crate) fn is_delayed(&self, target: &J::Target, now: Duration) -> bool {
        self.delays.get(target).is_some_and(|wait| wait.until > now)
    }

    /// Work on a target succeeded, or the target is gone.
    pub(crate) fn forget(&mut self, target: &J::Target) {
        self.delays.remove(target);
    }

    /// Forgets the failures of all targets but these.
    pub(crate) fn retain(&mut self, stays: impl Fn(&J::Target) -> bool) {
        self.delays.retain(|target, _| stays(target));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    impl Job for (u8, bool) {
        type Target = u8;

        fn target(&self) -> u8 {
            self.0
        }
    }

    fn queue(limit: Duration) -> (WorkQueue<(u8, bool), u8>, std::sync::mpsc::Receiver<()>) {
        let (send, woken) = channel();
        let wake = move || send.send(()).unwrap();
        let run = |(target, is_stuck): (u8, bool)| {
            if is_stuck {
                std::thread::sleep(Duration::MAX);
            }
            target
        };
        (WorkQueue::new(3, limit, Arc::new(wake), run), woken)
    }

    #[test]
    fn jobs_are_done_in_turn_each_target_once_and_few_wait() {
        let (mut queue, woken) = queue(Duration::from_secs(60));
        for target in [1, 2, 2, 3, 4] {
            queue.add((target, false));
        }
        let waiting: Vec<u8> = queue.waiting().map(|job| job.0).collect();
        assert_eq!(waiting, [1, 2, 3]);
        // The first is not wanted any more.
        queue.begin(|job| job.0 != 1);
        assert_eq!(queue.running(), Some(&(2, false)));
        // While it runs, no other begins.
        queue.begin(|_| true);
        assert!(queue.is_waiting(&3));
        woken.recv().unwrap();
        assert_eq!(queue.finish(), Some(((2, false), Done::Result(2))));
        assert_eq!(queue.finish(), None);
        queue.clear();
        queue.begin(|_| true);
        assert_eq!(queue.running(), None);
    }

    #[test]
    fn what_never_ends_is_given_up_with_its_job() {
        let (mut queue, _woken) = queue(Duration::ZERO);
        queue.add((1, true));
        queue.begin(|_| true);
        assert_eq!(queue.finish(), Some(((1, true), Done::GivenUp)));
        assert_eq!(queue.lost(), 1);
    }

    #[test]
    fn what_failed_waits_ever_longer_until_it_succeeds() {
        let (mut queue, _woken) = queue(Duration::ZERO);
        let second = Duration::from_secs(1);
        queue.delay(1, Duration::ZERO);
        queue.delay(1, second);
        assert!(queue.is_delayed(&1, 2 * second) && !queue.is_delayed(&1, 3 * second));
        assert!(!queue.is_delayed(&2, Duration::ZERO));
        queue.retain(|target| *target == 1);
        assert!(queue.is_delayed(&1, second));
        queue.forget(&1);
        assert!(!queue.is_delayed(&1, second));
    }
}
