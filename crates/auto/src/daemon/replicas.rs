//! Says of which files copies are worth it. The daemon makes none: a copy takes the place of a file in the mount
//! namespace of those who start with it, which only whoever starts them can make.

use hugetext_engine::prepare::AdvisedFile;
use hugetext_leaf::FileId;
use hugetext_leaf::replica::{Locality, ReplicaFacts, ReplicaLimits, decide_replicas};

use super::Daemon;
use crate::catalog::{FileText, Key, Known};
use crate::rush::Rush;
use crate::status::ReplicaStatus;

impl Daemon<'_> {
    /// The rate from which a file is remembered: below half of what one copy serves, it is far from a second one.
    fn least(&self) -> u64 {
        self.config.replicas.starts_per_copy.get().div_ceil(2)
    }

    /// Ends a second of counted starts, if one has passed.
    pub(super) fn count_rushes(&mut self) {
        let (now, half_life) = (self.now(), self.config.half_life());
        let least = self.least();
        self.rushes.settle(now, half_life, least);
    }

    /// The files of which copies may be worth it.
    pub(super) fn replicas(&self) -> Vec<ReplicaStatus> {
        let (now, half_life) = (self.now(), self.config.half_life());
        // The standard library reads files of the control group for it.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let rush = |(file, rush): (FileId, &Rush)| {
            let known = self.catalog.of_id(file);
            let known = known.and_then(|key| Some((key, self.catalog.get(key)?)));
            let starts = rush.starts_per_second(now, half_life);
            ReplicaStatus {
                name: Some(rush.name.clone()),
                advised: self.advise(file, starts, known, processors),
            }
        };
        let mut found: Vec<ReplicaStatus> = self.rushes.iter().map(rush).collect();
        // What one node fetches from another, however seldom it starts.
        let held = self.holder.keys().into_iter();
        let held = held.filter_map(|key| Some((key, self.catalog.get(key)?)));
        let calm: Vec<(Key, &Known)> = held
            .filter(|(_, known)| found.iter().all(|rush| rush.advised.file != known.file.id))
            .collect();
        let far = calm.into_iter().map(|(key, known)| ReplicaStatus {
            name: Some(known.path.clone()),
            advised: self.advise(known.file.id, 0, Some((key, known)), processors),
        });
        found.extend(far.filter(|far| far.advised.decision.copies() > 0));
        found.sort_by_key(|found| std::cmp::Reverse(found.advised.starts_per_second));
        found
    }

    fn advise(
        &self,
        file: FileId,
        starts: u64,
        known: Option<(Key, &Known)>,
        processors: usize,
    ) -> AdvisedFile {
        let text = known.and_then(|(_, known)| known.text.as_ref());
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let facts = ReplicaFacts {
            // A file whose text fills no window has less than two of them.
            bytes: text.map_or(self.leaf.bytes().saturating_mul(2), FileText::bytes),
            nodes: number(self.nodes.with_memory().len()),
            remote_per_mille: known.map_or(0, |(key, known)| self.remote(key, known)),
            starts_per_second: starts,
            processors: number(processors),
        };
        let limits = ReplicaLimits {
            memory: self.memory.available / 4,
            copies: self.config.replicas.most,
            starts_per_copy: self.config.replicas.starts_per_copy.get(),
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
        let Some(held) = self.holder.get(key) else {
            return 0;
        };
        let runners = known.runners(self.now(), self.config.half_life());
        Locality::of(&held.nodes, &runners).remote_per_mille()
    }
}
