//! Which files are worth copies, as the autopilot found: a document for programs that start commands.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hugetext_host::{Place, filesystem_of, open_regular};
use hugetext_leaf::replica::{ReplicaChoice, ReplicaDecision};
use hugetext_leaf::{FileId, Filesystem};
use hugetext_loader::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolve;
use super::targets::Targets;
use crate::host_context::HostContext;

/// Where the autopilot writes its documents.
pub const AUTOPILOT_DIRECTORY: &str = "/run/hugetext-auto";
/// The document.
const NAME: &str = "replicas.json";
/// The most bytes of it that are read.
const LONGEST: u64 = 1 << 20;
/// The autopilot writes it every ten seconds. Older advice is of one that was killed.
const FRESH: Duration = Duration::from_secs(60);

/// A file, what was seen of it, and the decision. It has no name: any user may read this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AdvisedFile {
    /// The file, as the kernel's maps name it.
    pub file: FileId,
    /// The most processes that started with it in a second. What was seen a half-life ago counts half.
    pub starts_per_second: u64,
    /// The part of its fetches that went to another NUMA node, of a thousand; 0 if that is unknown.
    pub remote_per_mille: u32,
    /// How many copies are worth it.
    pub decision: ReplicaDecision,
}

/// Files that are worth copies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaAdvice {
    /// Seconds since the epoch when this was written.
    pub written: u64,
    /// The files.
    pub files: Vec<AdvisedFile>,
}

impl ReplicaAdvice {
    /// Reads the advice in `directory`: none if nobody gives any, or if it is too old.
    pub fn read(directory: &Path) -> io::Result<ReplicaAdvice> {
        let file = match open_regular(&directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ReplicaAdvice::default());
            }
            opened => opened?,
        };
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text)?;
        let advice: ReplicaAdvice = serde_json::from_slice(&text).map_err(io::Error::other)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        Ok(if advice.is_fresh(now) {
            advice
        } else {
            ReplicaAdvice::default()
        })
    }

    /// Whether it holds at `now`, in seconds since the epoch. Advice from the future is of another clock.
    fn is_fresh(&self, now: u64) -> bool {
        now.checked_sub(self.written)
            .is_some_and(|age| age <= FRESH.as_secs())
    }

    /// Puts it into `directory` in one step.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        Place::at(&directory.join(NAME))?.put(&text, 0o644)
    }

    /// Removes it from `directory`.
    pub fn remove(directory: &Path) {
        // Without an autopilot, nobody reads it.
        let _ = Place::at(&directory.join(NAME)).and_then(|place| place.remove());
    }

    /// The choice of a command that maps the files at `paths`; `None` if no copy is worth it.
    pub fn choice<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) -> Option<ReplicaChoice> {
        if self.files.is_empty() {
            return None;
        }
        ReplicaChoice::of(paths.into_iter().filter_map(|path| self.decision(path)))
    }

    /// The choice of a command that executes `program`.
    pub fn choice_of_program(&self, program: &Path, host: &HostContext) -> Option<ReplicaChoice> {
        if self.files.is_empty() {
            return None;
        }
        let environment = Environment::current();
        let mut targets = Targets::new(host.leaf, false, &environment);
        for program in resolve::programs(program) {
            targets.add_program(&program);
        }
        let paths = targets.files.iter().chain(&targets.small);
        self.choice(paths.map(PathBuf::as_path))
    }

    fn decision(&self, path: &Path) -> Option<ReplicaDecision> {
        let file = open_regular(path).ok()?;
        let metadata = file.metadata().ok()?;
        let filesystem = filesystem_of(&file).unwrap_or(Filesystem::Other);
        let is_it = |advised: &&AdvisedFile| advised.file.may_name(&metadata, filesystem);
        self.files
            .iter()
            .find(is_it)
            .map(|advised| advised.decision)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn advice(path: &Path, copies: u32) -> ReplicaAdvice {
        ReplicaAdvice {
            written: 1000,
            files: vec![AdvisedFile {
                file: FileId::of(&fs::metadata(path).unwrap()),
                starts_per_second: 20_000,
                remote_per_mille: 0,
                decision: ReplicaDecision::PerGroup { copies, bytes: 1 },
            }],
        }
    }

    #[test]
    fn a_command_gets_what_was_advised_for_one_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let (hot, calm) = (directory.path().join("hot"), directory.path().join("calm"));
        for path in [&hot, &calm] {
            fs::write(path, "x").unwrap();
        }
        let advice = advice(&hot, 4);
        let paths = [calm.as_path(), hot.as_path()];
        assert_eq!(advice.choice(paths), Some(ReplicaChoice::OneOf(4)));
        assert_eq!(advice.choice([calm.as_path()]), None);
        assert_eq!(ReplicaAdvice::default().choice(paths), None);
    }

    #[test]
    fn advice_of_an_autopilot_that_was_killed_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut advice = advice(directory.path(), 2);
        assert!(advice.is_fresh(1000) && advice.is_fresh(1060));
        assert!(!advice.is_fresh(1061) && !advice.is_fresh(999));
        advice.write(directory.path()).unwrap();
        let read = ReplicaAdvice::read(directory.path()).unwrap();
        assert_eq!(read, ReplicaAdvice::default(), "it is years old");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        advice.written = now.as_secs();
        advice.write(directory.path()).unwrap();
        assert_eq!(ReplicaAdvice::read(directory.path()).unwrap(), advice);
        ReplicaAdvice::remove(directory.path());
        let none = ReplicaAdvice::read(directory.path()).unwrap();
        assert_eq!(none, ReplicaAdvice::default());
    }
}
