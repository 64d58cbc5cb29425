//! One thread prepares; the start of a container waits for it within a bound. What is not ready then is ready
//! for the next start.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::decide::{Order, Shown};

/// Containers that may wait to be prepared. Beyond that, they start as they are.
const QUEUE: usize = 64;

/// What was done for a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Copies to show.
    pub(crate) shown: Vec<Shown>,
    /// Files whose text is warm where they are.
    pub(crate) warm: usize,
    /// What could not be done.
    pub(crate) problems: Vec<String>,
}

/// What is done so far, for the start that waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Done>>);

impl Progress {
    /// Adds to it.
    pub(crate) fn update(&self, add: impl FnOnce(&mut Done)) {
        add(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        // A thread that died while it added left something whole behind: a list with or without an entry.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the work came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it was done.
    Whole,
    /// The rest is done after the start.
    Late,
    /// Nothing will be done: too many containers wait.
    Crowded,
    /// Nothing will be done: the thread ended.
    Ended,
}

struct Job {
    order: Order,
    progress: Progress,
    done: SyncSender<()>,
}

/// The thread that prepares.
#[derive(Debug)]
pub(crate) struct Worker(SyncSender<Job>);

impl Worker {
    /// Starts a thread that carries out orders by `prepare`, one after the other. `late` is told what was done for
    /// a container that did not wait for it.
    pub(crate) fn start(
        mut prepare: impl FnMut(&Order, &Progress) + Send + 'static,
        mut late: impl FnMut(&Order, &Done) + Send + 'static,
    ) -> std::io::Result<Worker> {
        let (send, jobs): (SyncSender<Job>, Receiver<Job>) = sync_channel(QUEUE);
        let run = move || {
            for job in jobs {
                prepare(&job.order, &job.progress);
                if job.done.try_send(()).is_err() {
                    late(&job.order, &job.progress.lock());
                }
            }
        };
        thread::Builder::new()
            .name("prepare".to_owned())
            .spawn(run)?;
        Ok(Worker(send))
    }

    /// Carries out an order, and waits for at most `bound`. Returns what is done by then.
    pub(crate) fn prepare(&self, order: Order, bound: Duration) -> (Done, Extent) {
        let progress = Progress::default();
        let (done, finished) = sync_channel(1);
        let job = Job {
            order,
            progress: progress.clone(),
            done,
        };
        let extent = match self.0.try_send(job) {
            Err(TrySendError::Full(_)) => Extent::Crowded,
            Err(TrySendError::Disconnected(_)) => Extent::Ended,
            Ok(()) => match finished.recv_timeout(bound) {
                Ok(()) => Extent::Whole,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Extent::Late,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Extent::Ended,
            },
        };
        let done = progress.lock().clone();
        (done, extent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn what_is_done_in_time_is_all_that_is_done() {
        let warm = |_: &Order, progress: &Progress| progress.update(|done| done.warm += 2);
        let worker = Worker::start(warm, |_, _| {}).unwrap();
        let (done, extent) = worker.prepare(Order::for_node("1"), LONG);
        assert_eq!((done.warm, extent), (2, Extent::Whole));
    }

    #[test]
    fn a_start_does_not_wait_for_work_that_hangs_and_gets_what_is_done() {
        let (release, wait) = channel::<()>();
        let (tell, begun) = channel();
        let (tell_late, late) = channel();
        let hang = move |_: &Order, progress: &Progress| {
            progress.update(|done| done.warm += 1);
            let _ = tell.send(());
            let _ = wait.recv();
        };
        let worker = Worker::start(hang, move |_, done| {
            let _ = tell_late.send(done.warm);
        });
        let worker = worker.unwrap();
        // The first container keeps the thread.
        assert_eq!(
            worker.prepare(Order::for_node("1"), Duration::ZERO).1,
            Extent::Late
        );
        begun.recv().unwrap();
        for _ in 0..QUEUE {
            assert_eq!(
                worker.prepare(Order::for_node("1"), Duration::ZERO).1,
                Extent::Late
            );
        }
        assert_eq!(
            worker.prepare(Order::for_node("1"), LONG).1,
            Extent::Crowded
        );
        drop(release);
        assert_eq!(late.recv().unwrap(), 1, "it is done after the start");
    }

    #[test]
    fn a_thread_that_dies_is_told() {
        let dies = |_: &Order, _: &Progress| std::panic::resume_unwind(Box::new("dies"));
        let worker = Worker::start(dies, |_, _| {}).unwrap();
        assert_eq!(worker.prepare(Order::for_node("1"), LONG).1, Extent::Ended);
        assert_eq!(worker.prepare(Order::for_node("1"), LONG).1, Extent::Ended);
    }
}
