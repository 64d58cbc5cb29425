//! Says of which files copies are worth it. The daemon makes none: a copy takes the place of a file in the mount
//! namespace of those who start with it, which only whoever starts them can make.

use hugetext_engine::prepare::AdvisedFile;
use hugetext_leaf::FileId;
use hugetext_leaf::replica::{Locality, ReplicaFacts, ReplicaLimits, decide_replicas};

use super::sources::Sources;
use super::why::Reasons;
use crate::catalog::{FileText, Key, Known};
use crate::rush::Rush;
use crate::status::ReplicaStatus;

/// The files of which copies may be worth it.
pub(super) fn replicas(sources: &Sources, reasons: Reasons<'_>) -> Vec<ReplicaStatus> {
    let advice = Advice {
        reasons,
        nodes: number(sources.nodes.with_memory().len()),
        // The standard library reads files of the control group for it.
        processors: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let catalog = &reasons.files.catalog;
    let moment = reasons.terms.moment();
    let rush = |(file, rush): (FileId, &Rush)| {
        let known = catalog.of_id(file);
        let known = known.and_then(|key| Some((key, catalog.get(key)?)));
        let starts = rush.starts_per_second(moment);
        ReplicaStatus {
            name: Some(rush.name.clone()),
            advised: advice.of(file, starts, known),
        }
    };
    let mut found: Vec<ReplicaStatus> = sources.rushes.iter().map(rush).collect();
    // What one node fetches from another, however seldom it starts.
    let held = reasons.hold.keys().into_iter();
    let held = held.filter_map(|key| Some((key, catalog.get(key)?)));
    let calm: Vec<(Key, &Known)> = held
        .filter(|(_, known)| found.iter().all(|rush| rush.advised.file != known.file.id))
        .collect();
    let far = calm.into_iter().map(|(key, known)| ReplicaStatus {
        name: Some(known.path.clone()),
        advised: advice.of(known.file.id, 0, Some((key, known))),
    });
    found.extend(far.filter(|far| far.advised.decision.copies() > 0));
    found.sort_by_key(|found| std::cmp::Reverse(found.advised.starts_per_second));
    found
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What copies of a file depend on, besides the file.
struct Advice<'d> {
    reasons: Reasons<'d>,
    nodes: u32,
    processors: usize,
}

impl Advice<'_> {
    fn of(&self, file: FileId, starts: u64, known: Option<(Key, &Known)>) -> AdvisedFile {
        let (terms, room) = (self.reasons.terms, self.reasons.room);
        let text = known.and_then(|(_, known)| known.text.as_ref());
        let facts = ReplicaFacts {
            // A file whose text fills no window has less than two of them.
            bytes: text.map_or(terms.leaf.bytes().saturating_mul(2), FileText::bytes),
            nodes: self.nodes,
            remote_per_mille: known.map_or(0, |(key, known)| self.remote(key, known)),
            starts_per_second: starts,
            processors: number(self.processors),
        };
        let limits = ReplicaLimits {
            memory: room.memory.available / 4,
            copies: terms.config.replicas.most,
            starts_per_copy: terms.config.replicas.starts_per_copy.get(),
        };
        AdvisedFile {
            file,
            starts_per_second: starts,
            remote_per_mille: facts.remote_per_mille,
            decision: decide_replicas(&facts, &limits),
        }
    }

    /// The part of the fetches of what is held that goes to another node, of a thousand.
    fn remote(&self, key: Key, known: &Known) -> u32 {
        let Some(held) = self.reasons.hold.get(key) else {
            return 0;
        };
        let moment = self.reasons.terms.moment();
        let runners = known.runners(moment);
        Locality::of(&held.nodes, &runners).remote_per_mille()
    }
}
