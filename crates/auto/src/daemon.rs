//! The daemon: one line of parts, each of which owns its state. It sees, looks, decides, fills, holds and explains, in
//! one loop. What may take long waits in a queue, and runs in a thread that can be given up.

mod blame;
mod decision;
mod events;
mod files;
mod hold;
mod journal;
mod let_go;
mod lists;
mod meter;
mod replicas;
mod report;
mod room;
mod running;
mod sources;
mod tally;
mod terms;
mod wake;
mod why;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_engine::HostContext;
use hugetext_host::{give_up_administration, limit_listing};
use hugetext_leaf::hold::{Pressure, StallCause};
use hugetext_promote::make_place_of_copies;

use crate::calibrate::calibrate;
use crate::config::{Config, Mode};
use crate::memory::StallReport;
use crate::processor::own_time;
use crate::sight::Sight;
use crate::state::State;
use crate::status::{EVERY, Status};
use crate::text::Name;
use decision::Decision;
use events::system;
pub use events::{DaemonError, Event, PromotionNews, Settings};
use files::{Files, LookNews};
use hold::Hold;
use journal::Journal;
use let_go::LetGo;
use lists::Lists;
use meter::Meter;
use room::Room;
use running::{Promotions, nameless};
use sources::{Sources, refusal};
use tally::count;
use terms::Terms;
use wake::Wake;
use why::Reasons;

/// The time between two writes of the state.
const REMEMBER: Duration = Duration::from_secs(300);

/// A running daemon: what all parts go by, and the parts, in the order in which one hands on to the next.
pub struct Daemon<'t> {
    paths: Paths,
    terms: Terms,
    wake: Wake,
    sources: Sources,
    files: Files,
    room: Room,
    decision: Decision,
    hold: Hold,
    lists: Lists,
    promotions: Promotions,
    journal: Journal<'t>,
    meter: Meter,
    written: Written,
}

/// What the daemon reads and writes itself.
#[derive(Debug)]
struct Paths {
    config: PathBuf,
    state: PathBuf,
    status: PathBuf,
    /// Whether this daemon made the directory of its documents. systemd makes that of the unit.
    is_own: bool,
}

/// When the daemon wrote last.
#[derive(Debug)]
struct Written {
    document: Option<Instant>,
    state: Instant,
}

/// Makes the directory of the documents for a daemon that was started by hand; whether it was missing.
fn make_directory(at: &Path) -> bool {
    // Whoever writes there says what is wrong with it.
    DirBuilder::new().mode(0o755).create(at).is_ok()
}

impl<'t> Daemon<'t> {
    /// Begins. `tell` hears what happens.
    pub fn new(
        settings: Settings,
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
        let is_own = make_directory(&settings.status);
        // Kernels of Debian and Ubuntu ask for it to open records. After that, only the copies of promoted
        // processes need it, to have a path in the mount namespaces of these. No thread has been created yet.
        let promotes = !settings.observe && config.promotes_any();
        let place = promotes.then(make_place_of_copies).transpose();
        if !matches!(place, Ok(Some(()))) {
            give_up_administration().map_err(system("giving up CAP_SYS_ADMIN"))?;
        }
        limit_listing();
        let host = HostContext::with_huge_pages()?;
        let calibration = calibrate(host.leaf, config.set_share());
        let calibration = calibration.map_err(system("calibration"))?;
        let terms = Terms::new(config, settings.observe, &calibration, host.leaf);
        let refused = refused.iter().map(|(name, error)| refusal(*name, error));
        let mut problems: Vec<String> = refused.chain(calibration.unknown).collect();
        problems.extend(place.err().map(|error| nameless(&error)));
        let room = Room::new(&wake, host.page)?;
        problems.extend(room.problem());
        let mut journal = Journal::new(tell, problems);
        journal.tell(Event::Began {
            source: sight.name(),
            mode: terms.mode(),
            costs: calibration.costs,
        });
        let mut daemon = Daemon {
            sources: Sources::new(sight),
            files: Files::new(&wake).map_err(system("inotify"))?,
            room,
            decision: Decision::new(),
            hold: Hold::new(wake.handle()),
            lists: Lists::default(),
            promotions: Promotions::new(settings.requests, wake.handle()),
            meter: Meter::new(wake.handle()),
            journal,
            paths: Paths {
                config: settings.config,
                state: settings.state,
                status: settings.status,
                is_own,
            },
            written: Written {
                document: None,
                state: Instant::now(),
            },
            terms,
            wake,
        };
        daemon.follow_metrics();
        daemon.recall();
        let ceiling = daemon.room.ceiling(&daemon.terms, daemon.held());
        daemon.room.open(ceiling, daemon.terms.now());
        daemon.lists = Lists::new(settings.lists, ceiling, daemon.wake.handle());
        Ok(daemon)
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
            self.files.follow_changes().map_err(system("inotify"))?;
            self.sample();
            self.meter.look();
            let is_news = self.lists.hear(&mut self.journal);
            self.decision.note(is_news);
            self.look();
            self.decide();
            self.fill();
            self.report();
            let is_calibrated = self.terms.calibrate_again();
            self.decision.note(is_calibrated);
            if self.written.state.elapsed() >= REMEMBER {
                self.remember();
            }
        }
        for news in self.promotions.undo() {
            self.journal.tell(Event::Promotion(news));
        }
        self.remember();
        Status::remove(&self.paths.status);
        if self.paths.is_own {
            // Others may have put something there.
            let _ = fs::remove_dir(&self.paths.status);
        }
        Ok(())
    }

    /// What processes did since the last time goes to what is known of files.
    fn see(&mut self) -> Result<(), DaemonError> {
        let known = (&mut self.files, &mut self.hold);
        let journal = &mut self.journal;
        let seen = self.sources.see(&self.terms, &self.wake, known, journal);
        let is_evidence = seen.map_err(system("starts"))?;
        self.decision.note_evidence(is_evidence);
        Ok(())
    }

    /// Who spent processor time goes there too, and to those that may be promoted.
    fn sample(&mut self) {
        let (terms, files) = (&self.terms, &mut self.files);
        let ran = self.sources.sample(terms, files, &mut self.journal);
        if ran.is_empty() {
            return;
        }
        self.promotions.forget_ended();
        let is_evidence = ran.iter().any(|ran| !ran.text.is_empty());
        self.decision.note_evidence(is_evidence);
        if self.acts() {
            let room = self.allowed().saturating_sub(self.hold.bytes());
            let decided = (&self.terms, &self.decision);
            let known = (&self.files, &self.sources.owners.groups);
            for ran in &ran {
                self.promotions
                    .consider(ran, room, decided, known, &mut self.journal);
            }
        }
    }

    /// Whether anything may be filled or promoted now.
    fn acts(&self) -> bool {
        self.terms.mode() == Mode::Act && self.room.allowance.is_calm(self.terms.now())
    }

    /// What looks and fills have found goes to what is held. The next of each begins.
    fn look(&mut self) {
        let (terms, journal) = (&self.terms, &mut self.journal);
        let news = self.files.finish(terms, self.hold.lost(), journal);
        for news in &news {
            self.hold.follow(news, journal);
        }
        let is_known = |news: &LookNews| matches!(news, LookNews::Known(..));
        if news.iter().any(is_known) {
            self.decision.note(true);
            self.watch();
        }
        let (terms, journal) = (&self.terms, &mut self.journal);
        let files = &mut self.files;
        self.hold.finish(&self.decision, (terms, files), journal);
    }

    /// Watches the directories of all files that are worth it or held.
    fn watch(&mut self) {
        let (decision, hold) = (&self.decision, &self.hold);
        let wanted = |key| decision.holds(key) || hold.get(key).is_some();
        self.files.watch(wanted, self.terms.now());
    }

    /// Yields at once if tasks stall for memory.
    fn feel(&mut self) {
        if self.room.has_news_of_groups() {
            self.feel_groups();
            self.decision.hurry();
        }
        let Some(StallReport { pressure, at }) = self.room.report() else {
            return;
        };
        let (held, now) = (self.held(), self.terms.now());
        match self.room.feel(pressure, held, now) {
            StallCause::Unfounded => return,
            // The stalls may be its own, of filling huge folios, and others would gain nothing by what it gives up.
            StallCause::Plenty => {
                count(&mut self.journal.stalls.plenty);
                return self.hold.drop_plans();
            }
            StallCause::Shortage => {}
        }
        count(match pressure {
            Pressure::Some => &mut self.journal.stalls.some,
            Pressure::Full => &mut self.journal.stalls.full,
        });
        if pressure == Pressure::Full {
            self.promotions.give_back();
        }
        self.yield_under(pressure, LetGo::Stalled(pressure));
        let took = u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let slowest = &mut self.journal.stalls.slowest_us;
        *slowest = (*slowest).max(took);
    }

    fn yield_under(&mut self, pressure: Pressure, why: LetGo) {
        let (held, now) = (self.held(), self.terms.now());
        self.room.yield_under(pressure, held, now);
        let (allowed, candidates) = (self.allowed(), &self.decision.candidates);
        self.hold
            .give_up(candidates, allowed, why, &mut self.journal);
        // What was seen goes first; the lists follow if that is not enough.
        self.lists.allow(self.room.allowance.bytes());
        self.decision.note(true);
    }

    /// Leaves alone what control groups run that are at a limit.
    fn feel_groups(&mut self) {
        let groups = self.hold.groups(&self.files);
        let names = &self.sources.owners.groups;
        let at_limit = self.room.feel_groups(&groups, names, self.terms.now());
        let stalls = &mut self.journal.stalls.cgroups;
        *stalls = stalls.saturating_add(at_limit);
        self.decision.note(at_limit > 0);
    }

    /// Follows memory, and decides anew if anything has changed. What is not to be held any more is given up, and
    /// what is to be held waits to be filled.
    fn decide(&mut self) {
        if !self.decision.takes_turn() {
            return;
        }
        let now = self.terms.now();
        self.follow_memory(now);
        let has_changed = self.hold.take_changed();
        self.decision.note(has_changed);
        if !self.decision.is_due(self.hold.has_idle(now), now) {
            return;
        }
        let before = own_time();
        let allowed = self.allowed();
        let groups = &self.sources.owners.groups;
        let (terms, room, files) = (&self.terms, &self.room, &self.files);
        let listed = self.lists.states();
        self.decision
            .decide(terms, files, (room, groups), listed, allowed);
        let known = (terms, files, room);
        self.hold
            .release_refused(&self.decision, known, &mut self.journal);
        // Nothing is taken back before it is calm.
        let chosen = if self.acts() {
            self.decision.chosen()
        } else {
            Vec::new()
        };
        self.hold.plan(chosen, files, groups, now);
        self.hold.watch_idle(now);
        self.watch();
        let took = own_time().saturating_sub(before);
        self.decision.took(took, now);
    }

    fn follow_memory(&mut self, now: Duration) {
        self.room.read();
        if self.room.is_missed(self.held()) {
            count(&mut self.journal.stalls.missed);
            self.yield_under(Pressure::Some, LetGo::Missed);
        }
        let ended = self.hold.release_ended(&self.files, &mut self.journal);
        self.files.remove(&ended);
        self.sources.count_rushes(&self.terms);
        let ceiling = self.room.ceiling(&self.terms, self.held());
        let has_changed = self.room.follow(ceiling, now);
        self.decision.note(has_changed);
        self.lists.allow(self.room.allowance.bytes());
        if self.room.groups_are_due() {
            self.feel_groups();
        }
    }

    /// Begins what waits.
    fn fill(&mut self) {
        self.files.begin();
        self.hold.begin(self.terms.now());
        let has_changed = self.promotions.go_on(&self.terms, &mut self.journal);
        self.decision.note(has_changed);
    }

    /// Bytes that are held in all.
    fn held(&self) -> u64 {
        self.hold.bytes().saturating_add(self.first())
    }

    /// Bytes that are held before those of what was seen: by the lists and as copies of promoted processes.
    fn first(&self) -> u64 {
        self.lists.bytes().saturating_add(self.promotions.bytes())
    }

    /// Bytes that may be held of what was seen.
    fn allowed(&self) -> u64 {
        self.room.allowed(self.first())
    }

    fn reload(&mut self) {
        match self.terms.reload(&self.paths.config) {
            Ok(()) => {
                self.decision.note(true);
                self.follow_metrics();
            }
            Err(error) => {
                count(&mut self.journal.tally.bad_settings);
                self.journal.tell(Event::BadConfig(error));
            }
        }
    }

    /// Follows the settings about metrics.
    fn follow_metrics(&mut self) {
        if let Err(problem) = self.meter.follow(&self.terms.config.metrics) {
            self.journal.problem(problem);
        }
    }

    /// Takes over what was remembered, as far as it still exists.
    fn recall(&mut self) {
        let path = self.paths.state.display();
        let state = match State::read(&self.paths.state) {
            Ok(state) => state,
            Err(error) => {
                let problem = format!("{path}: {error}; starting without it");
                return self.journal.problem(problem);
            }
        };
        if let Some(damaged) = state.damaged.filter(|damaged| *damaged > 0) {
            let problem = format!("{path}: {damaged} lines are damaged and left out");
            self.journal.problem(problem);
        }
        self.terms.watched_before(state.watched);
        let (now, groups) = (self.terms.now(), &mut self.sources.owners.groups);
        for record in state.files {
            let path = record.path.clone();
            let key = self.files.catalog.recall(record, groups, now);
            self.files.want_look(key, Name::Path(path));
        }
    }

    /// Writes what the next daemon needs to know.
    fn remember(&mut self) {
        self.written.state = Instant::now();
        let moment = self.terms.moment();
        let groups = &mut self.sources.owners.groups;
        let (costs, held) = (&self.terms.costs, self.hold.keys());
        self.files.forget(costs, moment, &held, groups);
        let records = self.files.catalog.records(groups, moment);
        if let Err(error) = State::write(&self.paths.state, moment.now, &records) {
            let path = self.paths.state.display();
            self.journal.problem(format!("{path}: {error}"));
        }
    }

    /// Writes the documents and metrics if there is something new.
    fn report(&mut self) {
        let age = self.written.document.map(|at| at.elapsed());
        let acted = self.journal.has_acted();
        let is_due = age.is_none_or(|age| age >= EVERY || (acted && age >= EVERY / 10));
        if !is_due {
            return;
        }
        self.journal.documented();
        self.written.document = Some(Instant::now());
        let reasons = Reasons {
            terms: &self.terms,
            files: &self.files,
            room: &self.room,
            decision: &self.decision,
            hold: &self.hold,
            allowed: self.allowed(),
        };
        let others = (&self.lists, &self.promotions);
        let status = report::status(reasons, &self.sources, others, &self.journal);
        let complaint = self.meter.publish(&status, reasons, &self.journal.tally);
        if let Some(problem) = complaint {
            self.journal.problem(problem);
        }
        if let Err(error) = status.write(&self.paths.status) {
            let path = self.paths.status.display();
            self.journal.problem_once(&format!("{path}: {error}"));
        }
    }
}
