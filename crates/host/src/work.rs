//! Runs what may take long, or forever, in a thread that can be given up: a file may lie on a filesystem
//! that never answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use procfs::FromRead;
use procfs::process::Stat;

/// The most threads that were given up and have not ended. Until one ends, nothing new begins.
const MOST_LOST: usize = 16;

/// A job is given up after this many times its limit, even if it had no processor for all that time.
const MOST_LIMITS: u32 = 6;

/// How often [`Worker::wait`] looks at a job that has had its time.
const LOOK: Duration = Duration::from_millis(20);

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Done<R> {
    /// With a result.
    Result(R),
    /// It took too long. Its thread is left to itself, and its result will be dropped.
    GivenUp,
}

/// Does one job after another.
pub struct Worker<J, R> {
    run: Arc<dyn Fn(J) -> R + Send + Sync>,
    wake: Arc<dyn Fn() + Send + Sync>,
    jobs: Option<Sender<(J, Sender<R>)>>,
    current: Option<(Instant, Receiver<R>)>,
    lost: Arc<AtomicUsize>,
    doer: Arc<Doer>,
    limit: Duration,
}

/// What the thread that does the jobs has told of itself.
#[derive(Default)]
struct Doer {
    /// Its number; 0 until it has run for the first time.
    tid: AtomicI32,
    /// Processor time that it had taken when it began its job, in nanoseconds.
    before: AtomicU64,
}

impl Doer {
    fn begins(&self) {
        let spent = thread_time().as_nanos();
        let spent = u64::try_from(spent).unwrap_or(u64::MAX);
        self.before.store(spent, Ordering::Relaxed);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// Whether the thread waits for nothing but a processor, and has had less than `most` of one for its job. `false`
    /// if nobody can say.
    fn lacks_processor(&self, most: Duration) -> bool {
        let tid = self.tid.load(Ordering::Relaxed);
        if tid == 0 {
            return true;
        }
        let Ok(stat) = Stat::from_file(format!("/proc/self/task/{tid}/stat")) else {
            return false;
        };
        let ticks = stat.utime.saturating_add(stat.stime);
        let millis = ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1);
        let before = Duration::from_nanos(self.before.load(Ordering::Relaxed));
        stat.state == 'R' && Duration::from_millis(millis).saturating_sub(before) < most
    }
}

/// Processor time that the calling thread has taken.
pub(crate) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl<J, R> fmt::Debug for Worker<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.current.as_ref().map(|(since, _)| since);
        write!(f, "Worker {{ busy since {since:?} }}")
    }
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// A worker that calls `run` for each job, gives it up after `limit`, and calls `wake` at the end of
    /// each.
    pub fn new(
        limit: Duration,
        wake: Arc<dyn Fn() + Send + Sync>,
        run: impl Fn(J) -> R + Send + Sync + 'static,
    ) -> Worker<J, R> {
        Worker {
            run: Arc::new(run),
            wake,
            jobs: None,
            current: None,
            lost: Arc::new(AtomicUsize::new(0)),
            doer: Arc::default(),
            limit,
        }
    }

    /// Whether a job can begin now.
    pub fn is_free(&self) -> bool {
        self.current.is_none() && self.lost.load(Ordering::Relaxed) < MOST_LOST
    }

    /// Threads that were given up and have not ended.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// From now on, a job may take this long.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Begins a job; only while the worker is free.
    pub fn begin(&mut self, job: J) {
        if !self.is_free() {
            return;
        }
        let (send, receive) = channel();
        let jobs = match self.jobs.take() {
            Some(jobs) => jobs,
            None => {
                self.doer = Arc::default();
                self.spawn()
            }
        };
        // What it told of the job before is over.
        self.doer.tid.store(0, Ordering::Relaxed);
        // A thread that cannot be started gives no result, and the job is given up at its time.
        let _ = jobs.send((job, send));
        self.jobs = Some(jobs);
        self.current = Some((Instant::now(), receive));
    }

    fn spawn(&self) -> Sender<(J, Sender<R>)> {
        let (send, receive) = channel::<(J, Sender<R>)>();
        let (run, wake) = (Arc::clone(&self.run), Arc::clone(&self.wake));
        let lost = Arc::clone(&self.lost);
        let doer = Arc::clone(&self.doer);
        let _ = thread::Builder::new()
            .name("work".to_owned())
            .spawn(move || {
                for (job, result) in receive {
                    doer.begins();
                    // Nobody waits any more for what was given up.
                    if result.send(run(job)).is_err() {
                        lost.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                    wake();
                }
            });
        send
    }

    /// The end of the job, if it has ended or has taken too long.
    pub fn done(&mut self) -> Option<Done<R>> {
        let (since, result) = self.current.as_ref()?;
        match result.try_recv() {
            Ok(result) => {
                self.current = None;
                Some(Done::Result(result))
            }
            Err(TryRecvError::Empty) if since.elapsed() < self.limit => None,
            Err(_) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                (self.current, self.jobs) = (None, None);
                Some(Done::GivenUp)
            }
        }
    }

    /// As [`Worker::done`], and waits for it; `None` if there is no job. Time in which the job only waits for a
    /// processor, among many threads that want one, does not count, up to [`MOST_LIMITS`].
    pub fn wait(&mut self) -> Option<Done<R>> {
        loop {
            let (since, result) = self.current.as_ref()?;
            let left = self.limit.saturating_sub(since.elapsed()).max(LOOK);
            match result.recv_timeout(left) {
                Ok(result) => {
                    self.current = None;
                    return Some(Done::Result(result));
                }
                Err(RecvTimeoutError::Timeout)
                    if since.elapsed() < self.limit.saturating_mul(MOST_LIMITS)
                        && self.doer.lacks_processor(self.limit) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return self.done();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_one_by_one() {
        let mut worker = Worker::new(Duration::from_secs(60), Arc::new(|| {}), |n: u32| n + 1);
        for number in 0..3 {
            assert!(worker.is_free());
            worker.begin(number);
            assert!(!worker.is_free());
            assert_eq!(worker.wait(), Some(Done::Result(number + 1)));
        }
        assert_eq!(worker.done(), None);
    }

    #[test]
    fn what_never_ends_is_given_up_and_the_next_job_is_done() {
        let (release, held) = channel::<()>();
        let held = std::sync::Mutex::new(held);
        let mut worker = Worker::new(
            Duration::from_millis(1),
            Arc::new(|| {}),
            move |stuck: bool| {
                if stuck {
                    let _ = held.lock().unwrap().recv();
                }
            },
        );
        worker.begin(true);
        assert_eq!(worker.wait(), Some(Done::GivenUp));
        assert_eq!(worker.lost(), 1);
        worker.limit = Duration::from_secs(60);
        worker.begin(false);
        assert_eq!(worker.wait(), Some(Done::Result(())));
        drop(release);
    }

    /// Whoever waits for a lock is not helped by a processor.
    #[test]
    fn only_a_job_that_could_run_lacks_a_processor() {
        const LONG: Duration = Duration::from_secs(3600);
        let doer = Arc::new(Doer::default());
        assert!(doer.lacks_processor(LONG));
        let (end, ended) = channel::<()>();
        let (began, begun) = channel();
        let of_thread = Arc::clone(&doer);
        let thread = thread::spawn(move || {
            of_thread.begins();
            began.send(()).unwrap();
            while ended.try_recv() == Err(TryRecvError::Empty) {
                std::hint::spin_loop();
            }
            of_thread.begins();
            began.send(()).unwrap();
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        assert!(doer.lacks_processor(LONG));
        // It takes processor time, if little.
        while doer.lacks_processor(Duration::from_millis(1)) {
            thread::yield_now();
        }
        end.send(()).unwrap();
        begun.recv().unwrap();
        // Now it waits for what does not come.
        while doer.lacks_processor(LONG) {
            thread::yield_now();
        }
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}
