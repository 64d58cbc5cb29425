//! What the catalog remembers of files, and how it takes it over again.

use std::path::PathBuf;
use std::time::Duration;

use hugetext_host::MappedFile;
use hugetext_leaf::FileId;
use hugetext_leaf::hold::{Decayed, Evidence, EvidenceTime, Principal};

use super::record::{Record, Share};
use super::{Catalog, Key, Known, REMEMBERED};
use crate::owners::Groups;

impl Catalog {
    /// What outlives a restart: files that were looked at and can be opened without a process that runs
    /// them.
    pub(crate) fn records(&self, groups: &Groups, moment: EvidenceTime) -> Vec<Record> {
        let lasting = self.files.values().filter_map(|known| {
            let path = &known.text.as_ref()?.path;
            (!path.starts_with("/proc")).then_some((path, known))
        });
        let record = |(path, known): (&PathBuf, &Known)| Record {
            path: path.clone(),
            name: known.path.clone(),
            by: known
                .by
                .iter()
                .map(|(by, seen)| Share {
                    user: by.user,
                    cgroup: groups.name(by.group).to_owned(),
                    starts: seen.starts.at(moment),
                    seconds: seen.processor.at(moment),
                })
                .collect(),
        };
        lasting.map(record).collect()
    }

    /// Takes over a remembered file. Returns its number; it must be looked at, and may be gone.
    pub(crate) fn recall(&mut self, record: Record, groups: &mut Groups, now: Duration) -> Key {
        // Nothing is asked of its filesystem here, which may not answer.
        let file = MappedFile {
            id: FileId {
                dev: REMEMBERED,
                ino: self.next.saturating_add(1),
            },
            generation: 0,
        };
        let key = self.insert(file, record.name);
        if let Some(known) = self.files.get_mut(&key) {
            known.by.extend(record.by.into_iter().map(|share| {
                let principal = Principal {
                    user: share.user,
                    group: groups.number(&share.cgroup),
                };
                let evidence = Evidence {
                    starts: Decayed::new(share.starts, now),
                    processor: Decayed::new(share.seconds, now),
                };
                (principal, evidence)
            }));
        }
        key
    }
}
