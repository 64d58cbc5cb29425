//! Verifies that a copy still has the content that was written.
//!
//! If the kernel and filesystem have fs-verity, the kernel checks each page as it is read, even
//! after changes on the disk. Otherwise the content is hashed at the first use after a boot, and
//! after every change that the kernel makes, which ctime shows: no process can set ctime back.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hugetext_host::{boot_id, enable_verity, measure_verity};
use serde::{Deserialize, Serialize};

/// The content of KEY.json.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Path of the original when the entry was made; lossy if that is not UTF-8.
    pub(crate) path: String,
    pub(crate) recipe: String,
    /// [`FORMAT`]; 0 in entries of older versions, which are no longer used.
    #[serde(default)]
    pub(crate) format: u32,
    /// Absent until the entry has its name.
    #[serde(default)]
    pub(crate) seal: Option<Seal>,
}

/// How entries are named. In format 1, the name of an entry follows from its bytes.
pub(crate) const FORMAT: u32 = 1;

/// The state in which an entry was found to have its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Seal {
    /// Its fs-verity digest, in hexadecimal.
    Verity(String),
    /// Its state, verified during that boot.
    State(State),
}

/// The fields that change with every write through the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    boot: String,
    dev: u64,
    ino: u64,
    len: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> io::Result<State> {
        Ok(State {
            boot: boot_id()?,
            dev: metadata.dev(),
            ino: metadata.ino(),
            len: metadata.len(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// The result of checking a sealed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The file has the content that was written.
    Whole,
    /// The same, but found by reading it; with this seal, it need not be read again.
    WholeAgain(Seal),
    /// The file has another content.
    Damaged,
}

impl Seal {
    /// Seals a finished file with the content that was written: by fs-verity if it is available.
    pub(crate) fn set(path: &Path) -> io::Result<Seal> {
        let file = File::open(path)?;
        match enable_verity(&file).and_then(|()| measure_verity(&file)) {
            Ok(digest) => Ok(Seal::Verity(digest)),
            Err(_) => Ok(Seal::State(State::of(&file.metadata()?)?)),
        }
    }

    /// Whether `file` still has the content that was written. Where the seal does not tell, `is_whole` reads it.
    pub(crate) fn check(
        &self,
        file: &File,
        is_whole: impl Fn(&File) -> io::Result<bool>,
    ) -> io::Result<Found> {
        let holds = match self {
            Seal::Verity(digest) => measure_verity(file).is_ok_and(|now| now == *digest),
            Seal::State(state) => State::of(&file.metadata()?)? == *state,
        };
        if holds {
            return Ok(Found::Whole);
        }
        let before = State::of(&file.metadata()?)?;
        if !is_whole(file)? {
            return Ok(Found::Damaged);
        }
        Ok(Found::WholeAgain(Seal::State(before)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    fn is(file: &File) -> io::Result<bool> {
        Ok(fs::read(format!("/proc/self/fd/{}", file.as_raw_fd()))? == b"content")
    }

    #[test]
    fn a_seal_holds_until_somebody_writes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"content").unwrap();
        let path = file.path().to_owned();
        let seal = Seal::set(&path).unwrap();
        assert_eq!(
            seal.check(&File::open(&path).unwrap(), is).unwrap(),
            Found::Whole
        );
        // Times that were set back by utimensat(2) do not hide a write.
        let mtime = file.as_file().metadata().unwrap().modified().unwrap();
        if file.as_file().set_len(3).is_err() {
            return; // sealed by fs-verity
        }
        file.as_file().set_modified(mtime).unwrap();
        assert_eq!(
            seal.check(&File::open(&path).unwrap(), is).unwrap(),
            Found::Damaged
        );
    }

    #[test]
    fn another_boot_asks_for_the_content_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"content").unwrap();
        let mut state = State::of(&file.as_file().metadata().unwrap()).unwrap();
        state.boot = "another".to_owned();
        let found = Seal::State(state).check(file.as_file(), is).unwrap();
        let Found::WholeAgain(seal) = found else {
            panic!("{found:?}");
        };
        assert_eq!(seal.check(file.as_file(), is).unwrap(), Found::Whole);
    }
}
