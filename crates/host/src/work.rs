//! Runs what may take long, or forever, in a thread that can be given up: a file may lie on a filesystem
//! that never answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The most threads that were given up and have not ended. Until one ends, nothing new begins.
const MOST_LOST: usize = 16;

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
    limit: Duration,
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
            limit,
        }
    }

    /// Whether a job can begin now.
    pub fn is_free(&self) -> bool {
        self.current.is_none() && self.lost.load(Ordering::Relaxed) < MOST_LOST
    }

    /// Whether a job runs that was not given up, or [`Worker::done`] has not told its end.
    pub fn is_busy(&self) -> bool {
        self.current.is_some()
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
            None => self.spawn(),
        };
        // A thread that cannot be started gives no result, and the job is given up at its time.
        let _ = jobs.send((job, send));
        self.jobs = Some(jobs);
        self.current = Some((Instant::now(), receive));
    }

    fn spawn(&self) -> Sender<(J, Sender<R>)> {
        let (send, receive) = channel::<(J, Sender<R>)>();
        let (run, wake) = (Arc::clone(&self.run), Arc::clone(&self.wake));
        let lost = Arc::clone(&self.lost);
        let _ = thread::Builder::new()
            .name("work".to_owned())
            .spawn(move || {
                for (job, result) in receive {
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

    /// As [`Worker::done`], and waits for it; `None` if there is no job.
    pub fn wait(&mut self) -> Option<Done<R>> {
        let (since, result) = self.current.as_ref()?;
        match result.recv_timeout(self.limit.saturating_sub(since.elapsed())) {
            Ok(result) => {
                self.current = None;
                Some(Done::Result(result))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.done(),
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
}
