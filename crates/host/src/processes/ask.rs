//! Asks the kernel about processes in a thread that can be given up. Whoever lists the mappings of a process takes its
//! mmap_lock, and a thread of that process may hold this lock for as long as a filesystem does not answer: NFS asks
//! its server in mmap(2), and FUSE may wait for its own.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use procfs::FromRead;
use procfs::process::StatM;

use super::error::ProcessError;
use super::id::Pid;
use super::owner::{group_of_process, user_of_process};
use crate::work::{Done, Worker, thread_time};

/// Whose processes are not asked about until all threads have ended that were given up, so that nobody uses up
/// all that may be given up.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Silent {
    /// All of a user. Root is none: it runs what belongs to the machine.
    User(u32),
    /// Those of root in a control group, such as a service that waits for a server which is away.
    Group(String),
    /// One that lies in no control group.
    Process(Pid),
}

impl Silent {
    fn of(pid: Pid) -> Silent {
        let group = group_of_process(pid);
        match user_of_process(pid, group.as_deref()) {
            Some(user) if user != 0 => Silent::User(user),
            _ => match group.filter(|group| group != "/") {
                Some(group) => Silent::Group(group),
                None => Silent::Process(pid),
            },
        }
    }
}

type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Asks about one process after another.
pub struct ProcessAsker<R> {
    worker: Worker<Job<R>, R>,
    silent: BTreeSet<Silent>,
}

impl<R> fmt::Debug for ProcessAsker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessAsker {{ silent: {:?} }}", self.silent)
    }
}

impl<R: Send + 'static> ProcessAsker<R> {
    /// Waits for each answer at most `limit`.
    pub fn new(limit: Duration) -> ProcessAsker<R> {
        ProcessAsker {
            worker: Worker::new(limit, Arc::new(|| {}), |job: Job<R>| job()),
            silent: BTreeSet::new(),
        }
    }

    /// The answer of `job`, which is about process `pid`. `None` if it does not come in time, or if one about the
    /// same user or service is still to come.
    pub fn ask(&mut self, pid: Pid, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        if self.worker.lost() == 0 {
            self.silent.clear();
        }
        let is_silent = !self.silent.is_empty() && self.silent.contains(&Silent::of(pid));
        if is_silent || !self.worker.is_free() {
            return None;
        }
        self.worker.begin(Box::new(job));
        match self.worker.wait()? {
            Done::Result(result) => Some(result),
            Done::GivenUp => {
                self.silent.insert(Silent::of(pid));
                None
            }
        }
    }
}

/// A list of the mappings of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MappingsFile {
    /// /proc/PID/maps.
    Maps,
    /// /proc/PID/smaps, for which the kernel also walks the page tables.
    Smaps,
}

impl MappingsFile {
    fn name(self) -> &'static str {
        match self {
            MappingsFile::Maps => "maps",
            MappingsFile::Smaps => "smaps",
        }
    }

    /// How long the list of a process is waited for.
    fn patience(self, pid: Pid) -> Duration {
        match self {
            // A list of 60,000 mappings takes a fifth of this.
            MappingsFile::Maps => Duration::from_millis(250),
            // Page tables of 1 TiB in base pages take some seconds.
            MappingsFile::Smaps => {
                const GIB: u64 = 1 << 30;
                let resident = StatM::from_file(format!("/proc/{pid}/statm"));
                let pages = resident.map_or(0, |memory| memory.resident);
                let bytes = pages.saturating_mul(procfs::page_size());
                Duration::from_secs(10).saturating_add(Duration::from_millis(20 * (bytes / GIB)))
            }
        }
    }
}

type ListAsker = Mutex<ProcessAsker<io::Result<Vec<u8>>>>;

/// Asks for lists, in the process that made it: a child made by fork(2) lacks the threads, and may find a lock taken.
struct ListAskers {
    maker: u32,
    maps: ListAsker,
    smaps: ListAsker,
}

impl ListAskers {
    fn new() -> ListAskers {
        // Each list has a limit of its own.
        let asker = || Mutex::new(ProcessAsker::new(Duration::ZERO));
        ListAskers {
            maker: std::process::id(),
            maps: asker(),
            smaps: asker(),
        }
    }
}

static ASKERS: OnceLock<ListAskers> = OnceLock::new();

/// From now on, this process waits for the mappings of others for a limited time. They are read in threads, so a
/// process that enters a user namespace, which only one of one thread may, looks at others in a child.
pub fn limit_listing() {
    ASKERS.get_or_init(ListAskers::new);
}

/// Processor time that this process took to list mappings, in nanoseconds.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Processor time that this process took to list the mappings of others, in whatever thread.
pub fn listing_time() -> Duration {
    Duration::from_nanos(SPENT.load(Ordering::Relaxed))
}

/// Reads at most `most` bytes and one more.
fn read_list(path: &str, most: u64) -> io::Result<Vec<u8>> {
    let before = thread_time();
    let mut list = Vec::new();
    let read = File::open(path).and_then(|file| {
        let limited = file.take(most.saturating_add(1));
        BufReader::with_capacity(1 << 16, limited).read_to_end(&mut list)
    });
    let spent = thread_time().saturating_sub(before);
    let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
    SPENT.fetch_add(spent, Ordering::Relaxed);
    read.map(|_| list)
}

/// Reads a list of mappings, if it has at most `most` bytes.
pub(super) fn read_mappings(
    pid: Pid,
    file: MappingsFile,
    most: u64,
) -> Result<Vec<u8>, ProcessError> {
    let path = format!("/proc/{pid}/{}", file.name());
    let askers = ASKERS.get().filter(|_| pid != Pid::own());
    let read = match askers.filter(|askers| askers.maker == std::process::id()) {
        None => read_list(&path, most),
        Some(askers) => {
            let asker = match file {
                MappingsFile::Maps => &askers.maps,
                MappingsFile::Smaps => &askers.smaps,
            };
            let mut asker = asker.lock().unwrap_or_else(PoisonError::into_inner);
            asker.worker.set_limit(file.patience(pid));
            let read = asker.ask(pid, move || read_list(&path, most));
            read.ok_or(ProcessError::Unresponsive)?
        }
    };
    let list = read.map_err(procfs::ProcError::from)?;
    if list.len() as u64 > most {
        return Err(ProcessError::TooMuch);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn nobody_is_asked_again_before_the_answer_has_come() {
        let (answer, waiting) = channel::<()>();
        let mut asker = ProcessAsker::new(Duration::from_millis(1));
        let own = Pid::own();
        let hang = move || {
            let _ = waiting.recv();
        };
        assert_eq!(asker.ask(own, hang), None);
        // However often it is asked, one thread waits.
        for _ in 0..100 {
            assert_eq!(asker.ask(own, || ()), None);
        }
        assert_eq!(asker.worker.lost(), 1);
        answer.send(()).unwrap();
        while asker.worker.lost() > 0 {
            std::thread::yield_now();
        }
        // A machine under load may not answer within a millisecond either.
        assert!((0..10_000).any(|_| asker.ask(own, || ()).is_some()));
    }
}
