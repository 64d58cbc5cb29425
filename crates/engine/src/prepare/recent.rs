//! Commands for which nothing had to be prepared a moment ago. Builds start one compiler hundreds of times in a
//! second: looking at its files again each time would cost more than a short start gains.
//!
//! A note is a small file that only its owner writes. It names no file and no address: whoever finds a fresh one
//! runs the command as it is, or looks at its program alone, to move its image. So what a stale note can do is leave a
//! command unprepared for [`FRESH`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hugetext_host::{FileState, OwnNote, is_root};

use super::request::PrepareRequest;
use crate::user;

/// How long a note counts. A page cache that is reclaimed, an upgrade and a changed setting are noticed after
/// it.
const FRESH: Duration = Duration::from_secs(1);

/// Notes that are kept at most. A command takes the note of another one with the same last bits.
const NOTES: u64 = 256;

/// The directory of root's notes.
const SYSTEM: &str = "/run/hugetext/recent";

/// The variables by which the loader finds libraries.
const LOADER: [&str; 2] = ["LD_LIBRARY_PATH", "LD_PRELOAD"];

/// What a note says of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecentStart {
    /// Nothing had to be prepared.
    AsItIs,
    /// Nothing but that the image of its program was moved. No start is spared that.
    Moved,
}

impl RecentStart {
    const ALL: [RecentStart; 2] = [RecentStart::AsItIs, RecentStart::Moved];

    /// The number of a note that says so of the command with this key. It has the same last bits.
    fn number(self, key: u64) -> u64 {
        match self {
            RecentStart::AsItIs => key,
            RecentStart::Moved => !key ^ (NOTES - 1),
        }
    }
}

/// The note about one command, as one user asks for it.
#[derive(Debug)]
pub struct RecentCommand {
    note: OwnNote,
    key: u64,
}

impl RecentCommand {
    /// `None` where no note can be kept: without a directory that ends with the user's session, and for
    /// replicas, which are drawn anew for each command.
    pub fn of(program: &Path, request: &PrepareRequest) -> Option<RecentCommand> {
        let directory = if is_root() {
            PathBuf::from(SYSTEM)
        } else {
            user::session()?.join("hugetext")
        };
        RecentCommand::in_directory(directory, program, request)
    }

    fn in_directory(
        directory: PathBuf,
        program: &Path,
        request: &PrepareRequest,
    ) -> Option<RecentCommand> {
        if request.replica.is_some() {
            return None;
        }
        let state = FileState::of(&program.metadata().ok()?);
        let mut key = DefaultHasher::new();
        (program, state, &request.also, &request.store).hash(&mut key);
        (request.backend, request.merge).hash(&mut key);
        LOADER.map(std::env::var_os).hash(&mut key);
        if !request.also.is_empty() {
            // Their paths may be relative.
            std::env::current_dir().ok()?.hash(&mut key);
        }
        let key = key.finish();
        let note = OwnNote::at(directory.join(format!("{:02x}", key % NOTES)));
        Some(RecentCommand { note, key })
    }

    /// What had to be done for this command a moment ago, if that is known.
    pub fn found(&self) -> Option<RecentStart> {
        self.found_at(SystemTime::now())
    }

    fn found_at(&self, now: SystemTime) -> Option<RecentStart> {
        let (number, written) = self.note.read().ok()?;
        // A time to come is no age: the clock was set.
        let age = now.duration_since(written).ok()?;
        let mut starts = RecentStart::ALL.into_iter();
        starts.find(|start| age < FRESH && start.number(self.key) == number)
    }

    /// Notes what had to be done. Without the note, the next command looks again.
    pub fn note(&self, start: RecentStart) {
        let _ = self.note.write(start.number(self.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::CopyBackend;

    fn request() -> PrepareRequest {
        PrepareRequest {
            also: Vec::new(),
            backend: CopyBackend::Auto,
            store: None,
            merge: false,
            replica: None,
        }
    }

    fn recent(directory: &Path, program: &Path, request: &PrepareRequest) -> RecentCommand {
        RecentCommand::in_directory(directory.join("notes"), program, request).unwrap()
    }

    #[test]
    fn a_note_counts_for_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(&program, "x").unwrap();
        let recent = recent(directory.path(), &program, &request());
        assert_eq!(recent.found(), None, "nothing is noted");
        for start in RecentStart::ALL {
            recent.note(start);
            let (_, written) = recent.note.read().unwrap();
            assert_eq!(recent.found_at(written + FRESH / 2), Some(start));
            assert_eq!(recent.found_at(written + FRESH), None);
            let before = recent.found_at(written - FRESH);
            assert_eq!(before, None, "the clock was set back");
            let number = start.number(recent.key ^ NOTES);
            recent.note.write(number).unwrap();
            let other = recent.found_at(written);
            assert_eq!(other, None, "the note of another command");
        }
    }

    #[test]
    fn another_file_and_another_choice_are_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(&program, "x").unwrap();
        let key = |request: &PrepareRequest| recent(directory.path(), &program, request).key;
        let first = key(&request());
        assert_eq!(first, key(&request()));
        let merged = PrepareRequest {
            merge: true,
            ..request()
        };
        let also = PrepareRequest {
            also: vec!["other".into()],
            ..request()
        };
        let in_memory = PrepareRequest {
            backend: CopyBackend::Memory,
            ..request()
        };
        for other in [merged, also, in_memory] {
            assert_ne!(first, key(&other), "{other:?}");
        }
        std::fs::write(&program, "longer").unwrap();
        assert_ne!(first, key(&request()));
    }
}
