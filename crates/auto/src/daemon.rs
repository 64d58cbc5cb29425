//! The daemon: sees, decides, acts, yields, explains and remembers, in one loop. What may take long runs
//! in threads that can be given up.

mod act;
mod blame;
mod decide;
mod let_go;
mod meter;
mod promotion;
mod replicas;
mod report;
mod see;
mod wake;
mod why;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_engine::HostContext;
use hugetext_engine::keep::HoldReport;
use hugetext_host::{FileState, Nodes, Worker, give_up_administration, limit_listing};
use hugetext_leaf::Leaf;
use hugetext_leaf::hold::{Allowance, Candidate, Ceiling, Choice, Costs, MemoryEvents};
use hugetext_promote::make_place_of_copies;
use rustix::event::epoll::EventFlags;

use crate::calibrate::{Calibration, calibrate};
use crate::catalog::{Catalog, FileText, Key, MOST_FILES};
use crate::config::{Config, ConfigError, Mode};
use crate::fixed::{FixedList, Keeper};
use crate::holder::{Holder, Wait};
use crate::memory::{GroupLimits, Memory, Stalled, memory_events};
use crate::owners::Owners;
use crate::processor::Sampler;
use crate::promoter::{Promoter, PromotionNews};
use crate::reason::{Exclusion, Hindrance};
use crate::runs::Runs;
use crate::rush::Rushes;
use crate::sight::{Sight, SourceName};
use crate::state::State;
use crate::status::{Losses, Stalls, Status};
use crate::text::{Fill, Filled, Look, Looked, Name, fill, look};
use crate::watches::Watches;
use blame::BlamedUsers;
use meter::{Meter, Tally};
use wake::Wake;

/// The longest wait for the next start. The kernel wakes the daemon earlier if many come.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two decisions.
const DECIDE: Duration = Duration::from_secs(1);
/// The time between two looks at the limits of control groups.
const GROUPS: Duration = Duration::from_secs(2);
/// The time between two looks at the daemon's own limit.
const LIMIT: Duration = Duration::from_secs(60);
/// The time between two writes of the state.
const REMEMBER: Duration = Duration::from_secs(300);
/// What things cost is measured again after this long, which takes milliseconds, and less than a second on slow machines.
const CALIBRATE: Duration = Duration::from_secs(1800);
/// A look that takes longer is given up: headers are a few pages.
const LOOK: Duration = Duration::from_secs(5);
/// A fill that takes longer is given up: at 10 MB/s, 600 MB.
const FILL: Duration = Duration::from_secs(60);
/// The most files that wait to be looked at.
const MOST_LOOKS: usize = 2 * MOST_FILES;

/// What the daemon reads and writes.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub config: PathBuf,
    /// The state file.
    pub state: PathBuf,
    /// The directory of the documents that it writes.
    pub status: PathBuf,
    /// The directory that says which containers' pods ask for promotion.
    pub requests: PathBuf,
    /// Whether to only observe, also if the configuration says mode = "act".
    pub observe: bool,
    /// The one source of starts to use; the best if it is missing.
    pub source: Option<SourceName>,
    /// The administrator's lists. What they name is held even if the daemon only observes.
    pub lists: Option<FixedList>,
}

/// What the daemon tells the program that started it.
#[derive(Debug)]
pub enum Event {
    /// It has begun.
    Began {
        /// How it sees starts.
        source: SourceName,
        /// Whether it acts.
        mode: Mode,
        /// What the machine pays.
        costs: Costs,
    },
    /// A file is held.
    Held {
        /// The file.
        path: PathBuf,
        /// Bytes.
        bytes: u64,
    },
    /// A file is no longer held.
    Released {
        /// The file.
        path: PathBuf,
        /// Bytes.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// A process was promoted, or has its files again.
    Promotion(PromotionNews),
    /// The new configuration cannot be used; the old one stays.
    BadConfig(ConfigError),
    /// The administrator's lists are held, as far as possible.
    Listed(HoldReport),
    /// Something does not work, or was given up.
    Problem(String),
}

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine cannot hold text on huge pages.
    #[error(transparent)]
    Host(#[from] hugetext_engine::Error),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::System { what, error }
}

/// Why a source of starts is not used.
fn refusal(name: SourceName, error: &io::Error) -> String {
    let remedy = match (name, error.kind()) {
        (SourceName::Records, io::ErrorKind::PermissionDenied) => {
            "; it takes CAP_PERFMON, and where kernel.perf_event_paranoid is above 2, CAP_SYS_ADMIN"
        }
        _ => "",
    };
    format!("no {name:?}: {error}{remedy}")
}

/// What it means that copies have no path.
fn nameless(error: &io::Error) -> String {
    format!(
        "profilers find no names in promoted processes, because copies get no path in /run/hugetext: {error}; \
         the example promote.conf permits it to the service"
    )
}

/// A running daemon.
pub struct Daemon<'t> {
    settings: Settings,
    config: Config,
    tell: &'t mut dyn FnMut(Event),
    begun: Instant,
    watched_before: Duration,
    costs: Costs,
    leaf: Leaf,
    page: Leaf,
    sight: Sight,
    problems: Vec<String>,
    catalog: Catalog,
    rushes: Rushes,
    runs: Runs,
    nodes: Nodes,
    owners: Owners,
    sampler: Sampler,
    stalled: Stalled,
    limits: GroupLimits,
    /// Until when the files of a pressed control group are left alone.
    pressed: BTreeMap<u64, Duration>,
    memory: Memory,
    allowance: Allowance,
    holder: Holder,
    keeper: Option<Keeper>,
    promoter: Promoter,
    looks: VecDeque<Look>,
    /// Files that could not be looked at, and until when they wait.
    unread: BTreeMap<Key, Wait>,
    looker: Worker<Look, Looked>,
    looking: Option<Look>,
    fills: VecDeque<Fill>,
    filler: Worker<Fill, (Key, Result<Filled, Hindrance>)>,
    filling: Option<(Key, FileText)>,
    blamed: BlamedUsers,
    watches: Watches,
    watched: BTreeMap<(PathBuf, std::ffi::OsString), Key>,
    wake: Wake,
    candidates: Vec<Candidate<Key>>,
    choice: Choice<Key>,
    /// The files with text that were not compared at the last decision.
    excluded: BTreeMap<Key, Exclusion>,
    /// What might be held without regard to pressure, at the last decision.
    ceiling: Ceiling,
    /// When to decide anew although nothing has changed.
    due: Option<Duration>,
    /// What the lists held at the last report.
    listed: Option<(u64, BTreeSet<FileState>)>,
    tally: Tally,
    meter: Meter,
    losses: Losses,
    stalls: Stalls,
    /// What the kernel had counted at the last decision.
    events: MemoryEvents,
    /// Whether there is something to decide at once.
    changed: bool,
    /// Whether more was seen of what is known. Levels follow that slowly.
    evidence: bool,
    /// What was seen alone leads to no decision before.
    unhurried: Duration,
    /// Whether a file was held or released since the last document.
    acted: bool,
    /// The limit of the daemon's own control group, and when it was read.
    limit: Option<(Instant, Option<u64>)>,
    felt_groups: Option<Instant>,
    decided: Option<Instant>,
    reported: Option<Instant>,
    remembered: Instant,
    calibrated: Instant,
    /// Whether this daemon made the directory of its documents. systemd makes that of the unit.
    makes_directory: bool,
}

/// Makes the directory of the documents for a daemon that was started by hand; whether it was missing.
fn make_directory(at: &Path) -> bool {
    // Whoever writes there says what is wrong with it.
    DirBuilder::new().mode(0o755).create(at).is_ok()
}

impl<'t> Daemon<'t> {
    /// Begins. `tell` hears what happens.
    pub fn new(
        mut settings: Settings,
        tell: &'t mut dyn FnMut(Event),
    ) -> Result<Daemon<'t>, DaemonError> {
        // First: until then, SIGHUP and SIGTERM end this process at once.
        let wake = Wake::new().map_err(system("signals"))?;
        let (sight, refused) = match settings.source {
            Some(name) => (
                Sight::of(name).map_err(system("the source of starts"))?,
                Vec::new(),
            ),
            None => Sight::open(),
        };
        let config = Config::read(&settings.config)?;
        let makes_directory = make_directory(&settings.status);
        // Kernels of Debian and Ubuntu ask for it to open records. After that, only the copies of promoted
        // processes need it, to have a path in the mount namespaces of these. No thread has been created yet.
        let promotes = !settings.observe && config.promotes_any();
        let place = promotes.then(make_place_of_copies).transpose();
        if !matches!(place, Ok(Some(()))) {
            give_up_administration().map_err(system("giving up CAP_SYS_ADMIN"))?;
        }
        limit_listing();
        let host = HostContext::with_huge_pages()?;
        let Calibration { costs, unknown } =
            calibrate(host.leaf, config.set_share()).map_err(system("calibration"))?;
        let refused = refused.iter().map(|(name, error)| refusal(*name, error));
        let mut problems: Vec<String> = refused.chain(unknown).collect();
        problems.extend(place.err().map(|error| nameless(&error)));
        let lists = settings.lists.take();
        let stalled = Stalled::hear(wake.handle());
        problems.extend(stalled.problem.clone());
        let watches = Watches::new(LOOK, wake.handle()).map_err(system("inotify"))?;
        wake.add(&watches, EventFlags::IN)
            .map_err(system("epoll"))?;
        let limits = GroupLimits::new().map_err(system("epoll"))?;
        wake.add(&limits, EventFlags::IN).map_err(system("epoll"))?;
        let memory = Memory::read().map_err(system("/proc/meminfo"))?;
        let mode = if settings.observe {
            Mode::Observe
        } else {
            config.mode
        };
        let source = sight.name();
        tell(Event::Began {
            source,
            mode,
            costs,
        });
        let mut daemon = Daemon {
            looker: Worker::new(LOOK, wake.handle(), look),
            filler: Worker::new(FILL, wake.handle(), fill),
            allowance: Allowance::new(0, Duration::ZERO),
            begun: Instant::now(),
            watched_before: Duration::ZERO,
            sampler: Sampler::new(),
            catalog: Catalog::default(),
            rushes: Rushes::default(),
            runs: Runs::default(),
            nodes: Nodes::this(),
            owners: Owners::default(),
            limits,
            pressed: BTreeMap::new(),
            holder: Holder::default(),
            keeper: None,
            promoter: Promoter::new(wake.handle()),
            looks: VecDeque::new(),
            unread: BTreeMap::new(),
            looking: None,
            fills: VecDeque::new(),
            filling: None,
            watched: BTreeMap::new(),
            candidates: Vec::new(),
            choice: Choice::default(),
            excluded: BTreeMap::new(),
            ceiling: Ceiling::default(),
            due: None,
            listed: None,
            tally: Tally::default(),
            meter: Meter::new(wake.handle()),
            losses: Losses::default(),
            stalls: Stalls::default(),
            events: memory_events(),
            changed: true,
            evidence: true,
            unhurried: Duration::ZERO,
            acted: false,
            limit: None,
            felt_groups: None,
            decided: None,
            reported: None,
            remembered: Instant::now(),
            calibrated: Instant::now(),
            makes_directory,
            settings,
            config,
            tell,
            costs,
            leaf: host.leaf,
            page: host.page,
            sight,
            problems,
            stalled,
            memory,
            blamed: BlamedUsers::default(),
            watches,
            wake,
        };
        daemon.follow_metrics();
        daemon.recall();
        let ceiling = daemon.ceiling();
        daemon.allowance = Allowance::new(ceiling, daemon.now());
        daemon.keeper = lists.map(|lists| Keeper::new(lists, ceiling, daemon.wake.handle()));
        Ok(daemon)
    }

    /// How long this machine was watched in all.
    fn now(&self) -> Duration {
        self.watched_before.saturating_add(self.begun.elapsed())
    }

    fn mode(&self) -> Mode {
        if self.settings.observe {
            Mode::Observe
        } else {
            self.config.mode
        }
    }

    /// Runs until a signal ends it, and then remembers what it knows. The kernel unlocks the memory.
    pub fn run(&mut self) -> Result<(), DaemonError> {
        while !self.wake.stops() {
            self.see()?;
            self.wake.clear();
            self.feel();
            if self.wake.reloads() {
                self.reload();
            }
            self.follow_changes().map_err(system("inotify"))?;
            self.sample();
            self.look_at_units();
            self.hear_lists();
            self.finish();
            if self.decided.is_none_or(|at| at.elapsed() >= DECIDE) {
                self.decided = Some(Instant::now());
                self.decide();
            }
            self.begin();
            self.promote();
            self.report();
            if self.calibrated.elapsed() >= CALIBRATE {
                self.calibrate_again();
            }
            if self.remembered.elapsed() >= REMEMBER {
                self.remember();
            }
        }
        self.undo_promotions();
        self.remember();
        Status::remove(&self.settings.status);
        if self.makes_directory {
            // Others may have put something there.
            let _ = fs::remove_dir(&self.settings.status);
        }
        Ok(())
    }

    /// Bytes that are held in all.
    fn held(&self) -> u64 {
        let listed = self.keeper.as_ref().map_or(0, Keeper::bytes);
        let copied = self.promoter.bytes();
        self.holder
            .bytes()
            .saturating_add(listed)
            .saturating_add(copied)
    }

    /// Bytes that may be held of what was seen: the lists and the copies of promoted processes come first.
    fn allowed(&self) -> u64 {
        let listed = self.keeper.as_ref().map_or(0, Keeper::bytes);
        let others = listed.saturating_add(self.promoter.bytes());
        self.allowance.bytes().saturating_sub(others)
    }

    fn reload(&mut self) {
        match Config::read(&self.settings.config) {
            Ok(config) => {
                self.costs.set_share = config.set_share();
                self.config = config;
                self.changed = true;
                self.follow_metrics();
            }
            Err(error) => {
                self.tally.bad_settings = self.tally.bad_settings.saturating_add(1);
                (self.tell)(Event::BadConfig(error));
            }
        }
    }

    /// Takes over what was remembered, as far as it still exists.
    fn recall(&mut self) {
        let state = match State::read(&self.settings.state) {
            Ok(state) => state,
            Err(error) => {
                let path = self.settings.state.display();
                return (self.tell)(Event::Problem(format!(
                    "{path}: {error}; starting without it"
                )));
            }
        };
        if let Some(damaged) = state.damaged.filter(|damaged| *damaged > 0) {
            let path = self.settings.state.display();
            let problem = format!("{path}: {damaged} lines are damaged and left out");
            (self.tell)(Event::Problem(problem));
        }
        self.watched_before = state.watched;
        let now = self.now();
        for record in state.files {
            let path = record.path.clone();
            let key = self.catalog.recall(record, &mut self.owners.groups, now);
            self.want_look(key, Name::Path(path));
        }
    }

    /// The daemon begins while the machine boots and everything takes long. A quieter moment tells what things cost.
    fn calibrate_again(&mut self) {
        self.calibrated = Instant::now();
        if let Ok(again) = calibrate(self.leaf, self.config.set_share()) {
            self.costs = self.costs.least(again.costs);
            self.changed = true;
        }
    }

    /// Writes what the next daemon needs to know.
    fn remember(&mut self) {
        self.remembered = Instant::now();
        let (now, half_life) = (self.now(), self.config.half_life());
        let held = self.holder.keys();
        let groups = &mut self.owners.groups;
        self.catalog
            .forget(&self.costs, (now, half_life), &held, groups);
        self.unread
            .retain(|key, _| self.catalog.get(*key).is_some());
        let records = self.catalog.records(groups, now, half_life);
        if let Err(error) = State::write(&self.settings.state, now, &records) {
            let path = self.settings.state.display();
            (self.tell)(Event::Problem(format!("{path}: {error}")));
        }
    }
}
