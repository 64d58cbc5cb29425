//! Says what is held, what is not, and why.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hugetext_host::names::escaped;
use hugetext_host::{Pid, whole_nanoseconds};
use hugetext_leaf::hold::HalfLife;

use super::Daemon;
use crate::author::Author;
use crate::catalog::{FileText, Key, Known};
use crate::fixed::Keeper;
use crate::memory::field;
use crate::status::{EVERY, FileStatus, State, Status};

/// The most files in a document. `auto why` says of the others that little is known of them.
const MOST_FILES: usize = 1000;

impl Daemon<'_> {
    /// Writes the documents if there is something new.
    pub(super) fn report(&mut self) {
        let age = self.reported.map(|at| at.elapsed());
        let is_due = age.is_none_or(|age| age >= EVERY || (self.acted && age >= EVERY / 10));
        if !is_due {
            return;
        }
        self.acted = false;
        self.reported = Some(Instant::now());
        let status = self.status();
        self.publish(&status);
        if let Err(error) = status.write(&self.settings.status) {
            self.tell_once(format!("{}: {error}", self.settings.status.display()));
        }
    }

    /// Tells a problem that comes again and again, and keeps it for the documents.
    pub(super) fn tell_once(&mut self, problem: String) {
        let problem = escaped(&problem);
        if !self.problems.contains(&problem) {
            self.problems.push(problem.clone());
            (self.tell)(super::Event::Problem(problem));
        }
    }

    /// What it is and does now.
    pub fn status(&self) -> Status {
        let time = (self.now(), self.config.half_life());
        let mut files: Vec<FileStatus> = self
            .catalog
            .iter()
            .filter_map(|(key, known)| Some(self.file(key, known, known.text.as_ref()?, time)))
            .collect();
        files.sort_by(|a, b| {
            b.saves_ns
                .cmp(&a.saves_ns)
                .then_with(|| a.path.cmp(&b.path))
        });
        let held = files.iter().filter(|file| file.state == State::Held);
        let saves_ns = held.fold(0, |sum: u64, file| sum.saturating_add(file.saves_ns));
        files.truncate(MOST_FILES);
        let (own_cpu, own_bytes) = own();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Status {
            pid: Pid::own(),
            author: Author::this(),
            written: since_epoch.map_or(0, |since| since.as_secs()),
            mode: self.mode(),
            source: self.sight.name(),
            problems: self.problems.clone(),
            watched_ns: whole_nanoseconds(time.0),
            half_life_ns: whole_nanoseconds(time.1.duration()),
            costs: (&self.costs).into(),
            budget: self.config.budget.bytes(self.memory.total),
            allowed: self.allowance.bytes(),
            held: self.held(),
            listed: self.keeper.as_ref().map_or(0, Keeper::bytes),
            listed_files: self.keeper.as_ref().map_or(0, Keeper::files),
            promoted: self.promoter.promoted(),
            promoted_bytes: self.promoter.bytes(),
            saves_ns,
            losses: self.losses,
            stalls: self.stalls,
            own_cpu_ns: whole_nanoseconds(own_cpu),
            own_bytes,
            small: self.catalog.small(),
            files,
            replicas: self.replicas(),
        }
    }

    fn file(
        &self,
        key: Key,
        known: &Known,
        text: &FileText,
        (now, half_life): (Duration, HalfLife),
    ) -> FileStatus {
        let why = self.why(key, known, text, now);
        let held = self.holder.get(key);
        let worth = known.worth(&self.costs, now, half_life).nanoseconds();
        let users: std::collections::BTreeSet<u32> = known.by.keys().map(|by| by.user).collect();
        FileStatus {
            path: text.path.clone(),
            name: known.path.clone(),
            state: why.state(),
            cause: why.cause(),
            reason: why.to_string(),
            starts: rounded(known.starts(now, half_life)),
            cpu_ns: Some((known.processor(now, half_life) * 1e9) as u64).filter(|time| *time > 0),
            bytes: text.bytes(),
            windows: text.windows(),
            huge: held.map_or(0, |held| held.huge),
            saves_ns: (worth * text.bytes() as f64 / text.leaf.bytes() as f64) as u64,
            users: users.len(),
            cgroups: known.by.len(),
            public: text.is_public,
        }
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Processor time, and anonymous memory in bytes, of this process.
fn own() -> (Duration, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    (time, field(&status, "RssAnon:").unwrap_or(0))
}
