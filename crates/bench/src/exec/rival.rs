//! Other ways to huge text, measured as sides of their own in the same rounds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use super::names::OWN_SIDES;

/// Another way to huge text. The page cache of the program is in small folios, as it is without this
/// project. What the rival does about that is part of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// The name of its side.
    pub name: String,
    /// What it changes.
    pub change: RivalChange,
}

/// What a rival changes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RivalChange {
    /// A library that the loader loads before all others (LD_PRELOAD).
    Preload(PathBuf),
    /// An environment variable.
    Environment {
        /// Its name; not empty.
        name: String,
        /// Its value.
        value: String,
    },
    /// A word behind the command's name.
    Word(String),
    /// The words of a command that runs the command, such as "hugetext run --".
    Prefix(Vec<String>),
    /// A file that another tool wrote. It is shown under the program's path.
    File(PathBuf),
}

/// Why a rival is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RivalError {
    /// It has another form.
    #[error(
        "it has the form NAME=preload:LIBRARY, NAME=env:VARIABLE=VALUE, NAME=word:WORD, NAME=prefix:COMMAND or NAME=file:PATH"
    )]
    Form,
    /// It has a side's name.
    #[error("\"{0}\" is a side of every comparison; choose another name")]
    Taken(String),
}

impl FromStr for Rival {
    type Err = RivalError;

    fn from_str(text: &str) -> Result<Rival, RivalError> {
        // A name may hold the option that it stands for: node --use-largepages=on=word:WORD.
        let found = ["=preload:", "=env:", "=word:", "=prefix:", "=file:"]
            .into_iter()
            .filter_map(|kind| Some((text.find(kind)?, kind)))
            .min();
        let (at, kind) = found.ok_or(RivalError::Form)?;
        let (name, value) = (&text[..at], &text[at + kind.len()..]);
        if name.is_empty() || value.trim().is_empty() {
            return Err(RivalError::Form);
        }
        if OWN_SIDES.contains(&name) {
            return Err(RivalError::Taken(name.to_owned()));
        }
        let change = match kind {
            "=preload:" => RivalChange::Preload(value.into()),
            "=word:" => RivalChange::Word(value.to_owned()),
            "=prefix:" => {
                RivalChange::Prefix(value.split_whitespace().map(str::to_owned).collect())
            }
            "=file:" => RivalChange::File(value.into()),
            _ => match value.split_once('=') {
                Some((name, value)) if !name.is_empty() => RivalChange::Environment {
                    name: name.to_owned(),
                    value: value.to_owned(),
                },
                _ => return Err(RivalError::Form),
            },
        };
        Ok(Rival {
            name: name.to_owned(),
            change,
        })
    }
}

impl RivalChange {
    /// The file that it puts in the program's place.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            RivalChange::File(path) => Some(path),
            _ => None,
        }
    }

    /// The words of the command under this change.
    pub(super) fn words(&self, command: &[OsString]) -> Vec<OsString> {
        let mut words = command.to_vec();
        match self {
            RivalChange::Word(word) => words.insert(words.len().min(1), word.into()),
            RivalChange::Prefix(prefix) => {
                words.splice(..0, prefix.iter().map(OsString::from));
            }
            RivalChange::Preload(_) | RivalChange::Environment { .. } | RivalChange::File(_) => {}
        }
        words
    }

    /// Changes the environment of `command`.
    pub(super) fn apply(&self, command: &mut Command) {
        match self {
            RivalChange::Preload(library) => command.env("LD_PRELOAD", library),
            RivalChange::Environment { name, value } => command.env(name, value),
            RivalChange::Word(_) | RivalChange::Prefix(_) | RivalChange::File(_) => command,
        };
    }

    /// What it changes, for the reader.
    pub(super) fn describe(&self) -> String {
        match self {
            RivalChange::Preload(library) => format!("LD_PRELOAD={}", library.display()),
            RivalChange::Environment { name, value } => format!("{name}={value}"),
            RivalChange::Word(word) => format!("with {word}"),
            RivalChange::Prefix(words) => format!("behind {}", words.join(" ")),
            RivalChange::File(path) => format!("{} in the program's place", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_anything_else_is_an_error() {
        let rival = |text: &str| text.parse::<Rival>();
        let word = rival("node --use-largepages=on=word:--use-largepages=on").unwrap();
        assert_eq!(word.name, "node --use-largepages=on");
        assert_eq!(
            word.change,
            RivalChange::Word("--use-largepages=on".to_owned())
        );
        let tunable = rival("glibc=env:GLIBC_TUNABLES=glibc.elf.thp=1").unwrap();
        assert_eq!(tunable.change.describe(), "GLIBC_TUNABLES=glibc.elf.thp=1");
        let run = rival("run=prefix:hugetext run --").unwrap().change;
        let words = run.words(&["cc".into(), "-v".into()]);
        assert_eq!(words, ["hugetext", "run", "--", "cc", "-v"]);
        assert_eq!(run.describe(), "behind hugetext run --");
        assert!(rival("a=preload:/l.so").is_ok() && rival("a=file:/x=env:").is_ok());
        for wrong in [
            "",
            "a",
            "=word:x",
            "a=word:",
            "a=env:x",
            "a=env:=x",
            "a=b:c",
            "a=prefix: ",
        ] {
            assert_eq!(rival(wrong), Err(RivalError::Form), "{wrong}");
        }
        let taken = rival("warmed=word:x");
        assert_eq!(taken, Err(RivalError::Taken("warmed".to_owned())));
    }

    #[test]
    fn a_word_stands_behind_the_name_of_the_command() {
        let words = RivalChange::Word("-x".to_owned()).words(&["a".into(), "b".into()]);
        assert_eq!(words, ["a", "-x", "b"]);
    }
}
