//! What is remembered across restarts: a line that says what the file is, and a line for each file.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use hugetext_host::{Place, open_trusted};
use serde::{Deserialize, Serialize};

use crate::catalog::{MOST_FILES, Record};

/// Where the state is.
pub const PATH: &str = "/var/lib/hugetext/auto.state";

/// The version of the lines. A file of another version is not read.
const VERSION: u32 = 1;
/// The most bytes that are read: more than what is remembered takes.
const LONGEST: u64 = 64 << 20;

/// What was remembered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct State {
    /// How long this machine was watched in all.
    pub(crate) watched: Duration,
    /// The files.
    pub(crate) files: Vec<Record>,
    /// Lines that could not be read, or `None` if nothing was remembered at all.
    pub(crate) damaged: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(rename = "hugetext-auto")]
    version: u32,
    watched_seconds: u64,
}

impl State {
    /// Reads the state. Lines that are damaged are left out and counted. A missing file, or one of
    /// another version, is an empty state.
    pub(crate) fn read(path: &Path) -> io::Result<State> {
        let mut bytes = Vec::new();
        match open_trusted(path) {
            Ok(file) => file.take(LONGEST).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(error),
        };
        Ok(State::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> State {
        let mut lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let head = lines.next().map(serde_json::from_slice::<Head>);
        let Some(Ok(head)) = head.filter(|head| head.as_ref().is_ok_and(|h| h.version == VERSION))
        else {
            return State {
                damaged: (!bytes.is_empty()).then_some(1),
                ..State::default()
            };
        };
        let mut state = State {
            watched: Duration::from_secs(head.watched_seconds),
            files: Vec::new(),
            damaged: Some(0),
        };
        for line in lines.take(MOST_FILES) {
            match serde_json::from_slice::<Record>(line) {
                Ok(record) if record.path.is_absolute() => state.files.push(record),
                _ => state.damaged = state.damaged.map(|damaged| damaged.saturating_add(1)),
            }
        }
        state
    }

    /// Replaces the state at `path` in one step.
    pub(crate) fn write(path: &Path, watched: Duration, files: &[Record]) -> io::Result<()> {
        let head = Head {
            version: VERSION,
            watched_seconds: watched.as_secs(),
        };
        // Neither numbers nor text can fail to become JSON.
        let mut text = serde_json::to_string(&head).unwrap_or_default();
        text.push('\n');
        for line in files
            .iter()
            .filter_map(|file| serde_json::to_string(file).ok())
        {
            text.push_str(&line);
            text.push('\n');
        }
        if let Some(directory) = path.parent() {
            // A directory that cannot be made is an error of the write below.
            let _ = fs::create_dir_all(directory);
        }
        // It names files that not every user may know.
        Place::at(path)?.put(text.as_bytes(), 0o600)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Share;

    fn record(name: &str) -> Record {
        Record {
            path: PathBuf::from(name),
            name: PathBuf::from(name),
            by: vec![Share {
                user: 1000,
                cgroup: "/user.slice".to_owned(),
                starts: 12.5,
                seconds: 0.25,
            }],
        }
    }

    fn written(files: &[Record]) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/auto.state");
        State::write(&path, Duration::from_secs(77), files).unwrap();
        let state = State::read(&path).unwrap();
        assert_eq!(state.files, files);
        assert_eq!(state.watched, Duration::from_secs(77));
        fs::read(path).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let odd = Path::new(OsStr::from_bytes(b"/home/u/x\xff\n"));
        let odd = Record {
            path: odd.to_owned(),
            ..record("/x")
        };
        written(&[record("/usr/bin/cc"), odd, record("/usr/bin/ld")]);
        written(&[]);
        let none = State::read(Path::new("/no/such/state")).unwrap();
        assert_eq!(none, State::default());
    }

    #[test]
    fn a_state_that_others_could_have_written_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o646)).unwrap();
        let error = State::read(file.path()).unwrap_err().to_string();
        assert!(error.contains("others may write to it"), "{error}");
    }

    #[test]
    fn of_a_damaged_file_the_whole_lines_stay() {
        let bytes = written(&[record("/usr/bin/cc"), record("/usr/bin/ld")]);
        let state = State::parse(&bytes[..bytes.len() - 20]);
        assert_eq!(state.files, [record("/usr/bin/cc")]);
        assert_eq!(state.damaged, Some(1));
        let other = State::parse(b"{\"hugetext-auto\":99,\"watched_seconds\":1}\n{}\n");
        assert_eq!((other.files.len(), other.damaged), (0, Some(1)));
    }

    proptest! {
        #[test]
        fn no_damage_is_too_much(at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = written(&[record("/usr/bin/cc")]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            prop_assert!(State::parse(&bytes).files.len() <= 1);
        }
    }
}
