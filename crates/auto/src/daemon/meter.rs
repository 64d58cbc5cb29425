//! Publishes the numbers of the daemon as metrics, if anybody wants them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hugetext_host::{Done, Place, Worker};
use hugetext_leaf::verdict::Verdict;
use hugetext_metrics::{Endpoint, FilesIn, Snapshot, UnitText, openmetrics, write_textfile};

use super::tally::{Tally, count};
use super::why::Reasons;
use crate::config::{Metrics, Mode};
use crate::reason::Cause;
use crate::status::{State, Status};
use crate::units::{self, Looked};

/// A look at all processes that takes longer is given up.
const LOOK: Duration = Duration::from_secs(60);

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
    pub(super) fn follow(&mut self, wanted: &Metrics) -> Result<(), String> {
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

    /// Looks at all processes when it is time to, if anybody wants the numbers.
    pub(super) fn look(&mut self) {
        if !self.is_wanted() {
            return;
        }
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

    /// Gives the numbers away, if anybody wants them. The same complaint is given once.
    pub(super) fn publish(
        &mut self,
        status: &Status,
        reasons: Reasons<'_>,
        tally: &Tally,
    ) -> Option<String> {
        if !self.is_wanted() {
            return None;
        }
        let snapshot = snapshot(status, self.text.clone(), reasons, tally);
        let text = openmetrics(&snapshot).unwrap_or_default();
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

/// All numbers: those of the document, and the counts of the journal.
fn snapshot(status: &Status, text: Vec<UnitText>, reasons: Reasons<'_>, tally: &Tally) -> Snapshot {
    let mut states: BTreeMap<(State, Cause), u64> = BTreeMap::new();
    let mut reachable = 0u64;
    for (key, known) in reasons.files.catalog.iter() {
        let Some(text) = &known.text else { continue };
        let why = reasons.why(key, known, text);
        count(states.entry((why.state(), why.cause())).or_default());
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
        verdict: status.verdict.map_or("unknown", Verdict::name),
        acts: status.mode == Mode::Act,
        budget: status.budget,
        allowed: status.allowed,
        held: status.held,
        listed: status.listed,
        reachable,
        expected_saving: status.saves_ns as f64 / 1e9,
        files: files.collect(),
        text,
        starts: tally.starts,
        decisions: tally.decisions.clone(),
        given_back: tally.given_back,
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
            ("bad_settings", tally.bad_settings),
            ("unread_files", tally.unread),
            ("unfilled_files", tally.unfilled),
        ],
        own_seconds: status.own_cpu_ns as f64 / 1e9,
        own_bytes: status.own_bytes,
    }
}
