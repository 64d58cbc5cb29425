//! Errors as the command prints them: one line with the subject, the problem and the remedy.

use std::fmt;
use std::io;
use std::path::Path;

use hugetext_bench::BenchError;
use hugetext_elf::ImageError;
pub use hugetext_engine::plain;
use hugetext_engine::{Error, Problem, Remedy};
use hugetext_host::{Pid, ProcessError, ReplaceError};
use hugetext_store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::{escaped, shown};

/// An error for the user.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct Failure {
    /// The path, process or argument that failed, and the problem.
    #[serde(rename = "error")]
    line: String,
    /// The remedy, where it is not obvious.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl From<StoreError> for Failure {
    fn from(source: StoreError) -> Failure {
        Failure::from(Error::Store {
            subject: "store".to_owned(),
            source,
        })
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure {
            line: escaped(&problem.line),
            remedy: problem.remedy.map(in_words).map(str::to_owned),
        }
    }
}

impl From<Error> for Failure {
    /// The engine's error in one line, with the remedy in the words of this command.
    fn from(error: Error) -> Failure {
        Failure::from(Problem::from(&error))
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        let failure = Failure::from(error.problem);
        match error.advice {
            Some(advice) => failure.remedy(advice),
            None => failure,
        }
    }
}

/// A remedy by the options of this command.
fn in_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::ActAsOwner => "run as root or as its owner",
        Remedy::FreeSpace => "free some space and try again",
        Remedy::TryAgain => "try again",
        Remedy::MountProc => "mount proc on /proc",
        Remedy::MountSysfs => "mount sysfs on /sys",
        Remedy::EnableThp => "boot one with CONFIG_TRANSPARENT_HUGEPAGE",
        Remedy::NameGeometry => "name them with --geometry",
        Remedy::RaiseMemlock => "raise the limit of locked memory (ulimit -l)",
        Remedy::FixBeforeSealing => "fix it before it is sealed",
        Remedy::FixBeforeSigning => "fix it before it is signed",
        Remedy::ElsewhereOrMutable => "use -o, or chattr -i first",
        Remedy::ElsewhereOrNotAppendOnly => "use -o, or chattr -a first",
        Remedy::PermitPrivileged => "use --privileged to replace it",
        Remedy::PermitPackageChecksum => {
            "use --vouched to replace it anyway, or write elsewhere with -o"
        }
        Remedy::PermitChecksum => "use --vouched to fix it anyway, and renew the checksum",
        Remedy::ReplaceInput => "use --in-place",
        Remedy::OtherBackupName => "name another with --backup=SUFFIX",
        Remedy::WriteElsewhere => "write elsewhere with -o",
        Remedy::AskStoreOwner => "have its owner make the copy",
        Remedy::RaiseStoreLimit => "`hugetext store gc --limit SIZE` sets the limit",
        Remedy::NameStore => "name one with --store",
        Remedy::OtherStore => "name another with --store",
        Remedy::CopiesInMemory => "try --backend store",
        Remedy::WarmedInPlace => "files are only warmed in place",
        Remedy::NoCopies => "--backend none needs no namespace",
        Remedy::NothingChanged => "nothing was changed",
    }
}

impl Failure {
    /// An error that names `subject` and `problem`, without the numbers of I/O errors.
    pub fn new(subject: impl fmt::Display, problem: impl fmt::Display) -> Failure {
        let (subject, problem) = (escaped(&subject.to_string()), escaped(&plain(problem)));
        Failure {
            line: format!("{subject}: {problem}"),
            remedy: None,
        }
    }

    /// An error about a file.
    pub fn at(path: &Path, problem: impl fmt::Display) -> Failure {
        Failure::new(shown(path), problem)
    }

    /// An I/O error about a file, in plain words and with a remedy for the common ones.
    pub fn io(path: &Path, error: &io::Error) -> Failure {
        Failure::at(path, error).maybe_remedy(hugetext_engine::io_remedy(error))
    }

    /// A file that could not be put at `path`.
    pub fn replace(path: &Path, error: &ReplaceError) -> Failure {
        Failure::at(path, error).maybe_remedy(hugetext_engine::replace_remedy(error))
    }

    /// An error of the image reader.
    pub fn image(path: &Path, error: &ImageError) -> Failure {
        match error {
            ImageError::Read(error) => Failure::io(path, error),
            error => Failure::at(path, error),
        }
    }

    /// An error that concerns a process.
    pub fn process(pid: Pid, error: &ProcessError) -> Failure {
        Failure::new(format_args!("process {pid}"), error)
    }

    fn maybe_remedy(self, remedy: Option<Remedy>) -> Failure {
        match remedy {
            Some(remedy) => self.remedy(in_words(remedy)),
            None => self,
        }
    }

    /// Adds a remedy.
    pub fn remedy(self, remedy: impl fmt::Display) -> Failure {
        Failure {
            remedy: Some(remedy.to_string()),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        self.remedy
            .as_ref()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}
