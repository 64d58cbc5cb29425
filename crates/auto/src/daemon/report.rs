//! Says what is held, what is not, and why.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hugetext_host::{Pid, ProcessStatus, whole_nanoseconds};

use super::journal::Journal;
use super::lists::Lists;
use super::replicas::replicas;
use super::running::Promotions;
use super::sources::Sources;
use super::why::Reasons;
use crate::author::Author;
use crate::catalog::{FileText, Key, Known};
use crate::status::{FileStatus, State, Status};

/// The most files in a document. `auto why` says of the others that little is known of them.
const MOST_FILES: usize = 1000;

/// What the daemon is and does now.
pub(super) fn status(
    reasons: Reasons<'_>,
    sources: &Sources,
    (lists, promotions): (&Lists, &Promotions),
    journal: &Journal<'_>,
) -> Status {
    let (terms, room) = (reasons.terms, reasons.room);
    let catalog = &reasons.files.catalog;
    let files = catalog.iter();
    let mut files: Vec<FileStatus> = files
        .filter_map(|(key, known)| Some(file(reasons, key, known, known.text.as_ref()?)))
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
    let moment = terms.moment();
    let others = lists.bytes().saturating_add(promotions.bytes());
    Status {
        pid: Pid::own(),
        author: Author::this(),
        written: since_epoch.map_or(0, |since| since.as_secs()),
        mode: terms.mode(),
        source: sources.name(),
        problems: journal.problems.clone(),
        watched_ns: whole_nanoseconds(moment.now),
        half_life_ns: whole_nanoseconds(moment.half_life.duration()),
        costs: (&terms.costs).into(),
        verdict: Some(terms.verdict),
        budget: terms.config.budget.bytes(room.memory.total),
        allowed: room.allowance.bytes(),
        held: reasons.hold.bytes().saturating_add(others),
        listed: lists.bytes(),
        listed_files: lists.files(),
        promoted: promotions.processes(),
        promoted_bytes: promotions.bytes(),
        saves_ns,
        losses: journal.losses,
        stalls: journal.stalls,
        own_cpu_ns: whole_nanoseconds(own_cpu),
        own_bytes,
        small: catalog.small(),
        files,
        replicas: replicas(sources, reasons),
    }
}

fn file(reasons: Reasons<'_>, key: Key, known: &Known, text: &FileText) -> FileStatus {
    let why = reasons.why(key, known, text);
    let held = reasons.hold.get(key);
    let moment = reasons.terms.moment();
    let costs = &reasons.terms.costs;
    let worth = known.worth(costs, moment).nanoseconds();
    let users: std::collections::BTreeSet<u32> = known.by.keys().map(|by| by.user).collect();
    FileStatus {
        path: text.path.clone(),
        name: known.path.clone(),
        state: why.state(),
        cause: why.cause(),
        reason: why.to_string(),
        starts: rounded(known.starts(moment)),
        cpu_ns: Some((known.processor(moment) * 1e9) as u64).filter(|time| *time > 0),
        bytes: text.bytes(),
        windows: text.windows(),
        huge: held.map_or(0, |held| held.huge),
        saves_ns: (worth * text.bytes() as f64 / text.leaf.bytes() as f64) as u64,
        users: users.len(),
        cgroups: known.by.len(),
        public: text.is_public,
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Processor time, and anonymous memory in bytes, of this process.
fn own() -> (Duration, u64) {
    let status = ProcessStatus::own().ok();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    let bytes = status.and_then(|status| status.bytes("RssAnon"));
    (time, bytes.unwrap_or(0))
}
