//! The administrator's lists (`hugetext keep`): what they name is held whether anybody runs it or not,
//! and again after each change.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hugetext_engine::Error;
use hugetext_engine::keep::{HeldFiles, HoldReport, WatchedPlaces, read_lists};
use hugetext_host::{Change, FileState, Watcher};

/// An upgrade replaces many files. It is over when none of them has changed for this long.
const QUIET: Duration = Duration::from_secs(1);
/// The longest wait for an upgrade, since some files may change all the time.
const SETTLED: Duration = Duration::from_secs(5);
/// The time between two looks at all files. Files that are not locked, because of the budget,
/// become cold, and some changes are not reported (network filesystems, programs moved along PATH).
const AGAIN: Duration = Duration::from_secs(60);

/// What the lists name, held.
#[derive(Debug)]
pub struct FixedList {
    directories: Vec<PathBuf>,
    store: Option<PathBuf>,
    held: Arc<Mutex<HeldFiles>>,
    places: WatchedPlaces,
    watcher: Watcher,
}

/// What is held of the lists.
#[derive(Debug)]
pub struct Renewed {
    /// What is held, and what not.
    pub report: HoldReport,
    /// The files that are locked, as they are now.
    pub states: BTreeSet<FileState>,
    /// Lists that cannot be read.
    pub unreadable: Vec<Error>,
}

impl FixedList {
    /// The lists in `directories`. Copies are made in `store`, or else in the user's own store.
    pub fn new(directories: Vec<PathBuf>, store: Option<PathBuf>) -> io::Result<FixedList> {
        Ok(FixedList {
            directories,
            store,
            held: Arc::default(),
            places: WatchedPlaces::default(),
            watcher: Watcher::new()?,
        })
    }

    /// Reads the lists, and locks at most `budget` bytes of what they name.
    pub fn renew(&mut self, budget: u64) -> Result<Renewed, Error> {
        let (list, unreadable) = read_lists(&self.directories);
        self.places = WatchedPlaces::of(&list, &self.directories);
        // The watch starts before anything is looked up, so that no change is missed.
        self.watcher.watch(self.places.directories());
        let before = std::mem::take(&mut *lock(&self.held));
        let (held, report) = before.renew(&list, self.store.as_deref(), budget)?;
        held.paths().iter().for_each(|path| self.places.add(path));
        self.watcher.watch(self.places.directories());
        let states = held.states();
        *lock(&self.held) = held;
        Ok(Renewed {
            report,
            states,
            unreadable,
        })
    }

    /// Returns when what is listed has changed and settled, or when the next look is due.
    pub fn wait(&mut self) -> io::Result<()> {
        let places = &self.places;
        let concern = |changes: Vec<Change>| changes.iter().any(|change| places.concern(change));
        let since = Instant::now();
        while !concern(self.watcher.wait(AGAIN.saturating_sub(since.elapsed()))?) {
            if since.elapsed() >= AGAIN {
                return Ok(());
            }
        }
        let (begun, mut last) = (Instant::now(), Instant::now());
        while begun.elapsed() < SETTLED && last.elapsed() < QUIET {
            let left = QUIET.saturating_sub(last.elapsed());
            let left = left.min(SETTLED.saturating_sub(begun.elapsed()));
            if concern(self.watcher.wait(left)?) {
                last = Instant::now();
            }
        }
        Ok(())
    }
}

/// Memory that a thread left behind in mid-work is still memory: what it holds can be given up.
fn lock(held: &Mutex<HeldFiles>) -> std::sync::MutexGuard<'_, HeldFiles> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the lists in a thread, beside a daemon that holds what it sees.
pub struct Keeper {
    held: Arc<Mutex<HeldFiles>>,
    allowed: Arc<AtomicU64>,
    renewed: Receiver<Result<Renewed, Error>>,
    last: HoldReport,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper of {:?}", self.last)
    }
}

impl Keeper {
    /// Begins to hold `lists` in at most `allowed` bytes, and calls `wake` when something has changed.
    pub fn new(lists: FixedList, allowed: u64, wake: Arc<dyn Fn() + Send + Sync>) -> Keeper {
        let (send, renewed) = channel();
        let held = Arc::clone(&lists.held);
        let allowed = Arc::new(AtomicU64::new(allowed));
        let budget = Arc::clone(&allowed);
        let run = move || keep(lists, &budget, &send, &*wake);
        // Without a thread, nothing is held, and the report stays empty.
        let _ = thread::Builder::new().name("lists".to_owned()).spawn(run);
        Keeper {
            held,
            allowed,
            renewed,
            last: HoldReport::default(),
        }
    }

    /// What changed since the last call.
    pub fn news(&mut self) -> Option<Result<Renewed, Error>> {
        let news = self.renewed.try_iter().last()?;
        if let Ok(Renewed { report, .. }) = &news {
            self.last = HoldReport {
                problems: Vec::new(),
                ..*report
            };
        }
        Some(news)
    }

    /// Bytes that the lists hold.
    pub fn bytes(&self) -> u64 {
        self.last.locked
    }

    /// Files that the lists hold.
    pub fn files(&self) -> usize {
        self.last.files
    }

    /// What may be held from the next look on. If less is allowed than is held, all of it is given up
    /// at once: which part of a list matters most is not known.
    pub fn allow(&mut self, bytes: u64) {
        self.allowed.store(bytes, Ordering::Relaxed);
        if bytes < self.last.locked {
            *lock(&self.held) = HeldFiles::default();
            self.last = HoldReport::default();
        }
    }
}

fn keep(
    mut lists: FixedList,
    allowed: &AtomicU64,
    tell: &Sender<Result<Renewed, Error>>,
    wake: &(dyn Fn() + Send + Sync),
) {
    loop {
        let budget = allowed.load(Ordering::Relaxed);
        let renewed = lists.renew(budget);
        // Pressure came while the files were looked at.
        if allowed.load(Ordering::Relaxed) < budget {
            *lock(&lists.held) = HeldFiles::default();
            continue;
        }
        if tell.send(renewed).is_err() {
            return;
        }
        wake();
        if lists.wait().is_err() {
            return;
        }
    }
}
