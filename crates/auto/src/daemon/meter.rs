//! Counts what the daemon does, and publishes the numbers as metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hugetext_host::{Done, Place, Worker};
use hugetext_leaf::hold::{Place as Share, Pressure};
use hugetext_metrics::{
    Decision, Endpoint, FilesIn, GivenBack, Snapshot, UnitText, openmetrics, write_textfile,
};

use super::let_go::LetGo;
use super::{Daemon, Event};
use crate::config::Metrics;
use crate::reason::{Cause, Exclusion};
use crate::status::{State, Status};
use crate::units::{self, Looked};

/// A look at all processes that takes longer is given up.
const LOOK: Duration = Duration::from_secs(60);

/// What the daemon did since it began.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) starts: u64,
    decisions: BTreeMap<Decision, u64>,
    given_back: GivenBack,
    pub(super) bad_settings: u64,
    pub(super) unread: u64,
    pub(super) unfilled: u64,
}

impl Tally {
    /// A file is held from now on.
    pub(super) fn held(&mut self, place: Option<Share>) {
        let reason = place.map_or(Cause::NotDecided, Cause::from).label();
        let decision = "hold";
        self.count(Decision { decision, reason });
    }

    /// A file of so many bytes was released.
    pub(super) fn let_go(&mut self, why: LetGo, bytes: u64) {
        self.count(why.decision());
        let sum = match why {
            LetGo::Stalled(Pressure::Some) => &mut self.given_back.some,
            LetGo::Stalled(Pressure::Full) => &mut self.given_back.full,
            LetGo::Excluded(Exclusion::GroupShort) => &mut self.given_back.cgroup,
            _ => return,
        };
        *sum = sum.saturating_add(bytes);
    }

    fn count(&mut self, decision: Decision) {
        let times = self.decisions.entry(decision).or_default();
        *times = times.saturating_add(1);
    }
}

/// Where the numbers go.
#[derive(Debug)]
pub(super) struct Meter {
    wanted: Metrics,
    endpoint: Option<Endpoint>,
    text: Vec<UnitText>,
    looker: Worker<(), Looked>,
    next: Instant,
    /// What went wrong when the textfile was written last.
    complaint: Option<String>,
}

impl Meter {
    /// A meter that gives its numbers to nobody; `wake` is called after each look at processes.
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Meter {
        Meter {
            wanted: Metrics::default(),
            endpoint: None,
            text: Vec::new(),
            looker: Worker::new(LOOK, wake, |()| units::look()),
            next: Instant::now(),
            complaint: None,
        }
    }

    /// Whether anybody wants the numbers.
    fn is_wanted(&self) -> bool {
        self.endpoint.is_some() || self.wanted.textfile.is_some()
    }

    /// Serves what the settings say, and where.
    fn follow(&mut self, wanted: &Metrics) -> Result<(), String> {
        if self.wanted.textfile != wanted.textfile {
            self.remove_textfile();
        }
        let is_same = self.wanted.listen == wanted.listen;
        self.wanted = wanted.clone();
        if is_same && self.endpoint.is_some() {
            return Ok(());
        }
        // A socket at the same place is free only when the old one is gone.
        self.endpoint = None;
        let Some(listen) = &wanted.listen else {
            return Ok(());
        };
        match Endpoint::new(&listen.0) {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Looks at all processes when it is time to.
    fn look(&mut self) {
        match self.looker.done() {
            Some(Done::Result(looked)) => {
                self.text = looked.text;
                self.next = Instant::now() + looked.pause;
            }
            Some(Done::GivenUp) => self.next = Instant::now() + LOOK,
            None => {}
        }
        if self.looker.is_free() && Instant::now() >= self.next {
            self.looker.begin(());
        }
    }

    /// Gives the numbers away. The same complaint is given once.
    fn publish(&mut self, snapshot: &Snapshot) -> Option<String> {
        let text = openmetrics(snapshot).unwrap_or_default();
        if let Some(endpoint) = &self.endpoint {
            endpoint.publish(&text);
        }
        let path: &PathBuf = self.wanted.textfile.as_ref()?;
        let written = write_textfile(path, &text);
        let complaint = written
            .err()
            .map(|error| format!("{}: {error}", path.display()));
        let is_new = complaint != self.complaint;
        self.complaint.clone_from(&complaint);
        complaint.filter(|_| is_new)
    }

    fn remove_textfile(&self) {
        if let Some(path) = &self.wanted.textfile {
            // Numbers of a daemon that has ended are not numbers of this machine.
            let _ = Place::at(path).and_then(|place| place.remove());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.remove_textfile();
    }
}

impl Daemon<'_> {
    /// Follows the settings about metrics.
    pub(super) fn follow_metrics(&mut self) {
        if let Err(problem) = self.meter.follow(&self.config.metrics) {
            (self.tell)(Event::Problem(problem));
        }
    }

    /// Looks at processes if metrics are wanted.
    pub(super) fn look_at_units(&mut self) {
        if self.meter.is_wanted() {
            self.meter.look();
        }
    }

    /// Publishes the numbers, if a scraper or a textfile is set.
    pub(super) fn publish(&mut self, status: &Status) {
        if !self.meter.is_wanted() {
            return;
        }
        let snapshot = self.snapshot(status);
        if let Some(problem) = self.meter.publish(&snapshot) {
            (self.tell)(Event::Problem(problem));
        }
    }

    fn snapshot(&self, status: &Status) -> Snapshot {
        let now = self.now();
        let mut states: BTreeMap<(State, Cause), u64> = BTreeMap::new();
        let mut reachable = 0u64;
        for (key, known) in self.catalog.iter() {
            let Some(text) = &known.text else { continue };
            let why = self.why(key, known, text, now);
            let files = states.entry((why.state(), why.cause())).or_default();
            *files = files.saturating_add(1);
            let bytes = text.obstacle.is_none().then(|| text.bytes());
            reachable = reachable.saturating_add(bytes.unwrap_or(0));
        }
        let files = states.into_iter().map(|((state, cause), files)| FilesIn {
            state: state.label(),
            reason: cause.label(),
            files,
        });
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            acts: status.mode == crate::config::Mode::Act,
            budget: status.budget,
            allowed: status.allowed,
            held: status.held,
            listed: status.listed,
            reachable,
            expected_saving: status.saves_ns as f64 / 1e9,
            files: files.collect(),
            text: self.meter.text.clone(),
            starts: self.tally.starts,
            decisions: self.tally.decisions.clone(),
            given_back: self.tally.given_back,
            stalls: vec![
                ("some", status.stalls.some),
                ("full", status.stalls.full),
                ("missed", status.stalls.missed),
                ("cgroup", status.stalls.cgroups),
                ("plenty", status.stalls.plenty),
            ],
            errors: vec![
                ("lost_records", status.losses.records),
                ("uncounted_starts", status.losses.starts),
                ("given_up", status.losses.given_up),
                ("bad_settings", self.tally.bad_settings),
                ("unread_files", self.tally.unread),
                ("unfilled_files", self.tally.unfilled),
            ],
            own_seconds: status.own_cpu_ns as f64 / 1e9,
            own_bytes: status.own_bytes,
        }
    }
}
