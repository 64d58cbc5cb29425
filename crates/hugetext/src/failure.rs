//! Errors as the command prints them: one line with the subject, the problem and the remedy.

use std::fmt;
use std::io;
use std::path::Path;

use hugetext_elf::ImageError;
use hugetext_host::{ProcessError, ReplaceError, StoreError, is_root};

use crate::path::{escaped, shown};

/// An error for the user.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The path, process or argument that failed.
    subject: String,
    /// The problem.
    problem: String,
    /// The remedy, where it is not obvious.
    remedy: Option<String>,
}

impl Failure {
    /// An error that names `subject` and `problem`, without the numbers of I/O errors.
    pub(crate) fn new(subject: impl fmt::Display, problem: impl fmt::Display) -> Failure {
        Failure {
            subject: escaped(&subject.to_string()),
            problem: escaped(&plain(problem)),
            remedy: None,
        }
    }

    /// An error about a file.
    pub(crate) fn at(path: &Path, problem: impl fmt::Display) -> Failure {
        Failure::new(shown(path), problem)
    }

    /// An I/O error about a file, in plain words and with a remedy for the common ones.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Failure {
        let failure = Failure::at(path, error);
        match error.kind() {
            io::ErrorKind::PermissionDenied if !is_root() => {
                failure.remedy("run as root or as its owner")
            }
            io::ErrorKind::StorageFull => failure.remedy("free some space and try again"),
            _ => failure,
        }
    }

    /// The mounts of this process cannot be read.
    pub(crate) fn mounts(error: &io::Error) -> Failure {
        let failure = Failure::io(Path::new("/proc/self/mountinfo"), error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.remedy("mount proc on /proc"),
            _ => failure,
        }
    }

    /// A kernel whose name, `release`, does not begin with a version.
    pub(crate) fn no_version(release: &str) -> Failure {
        Failure::new(release, "the version of this kernel cannot be read")
    }

    /// A kernel, named `release`, that does not tell the size of its huge pages.
    pub(crate) fn no_huge_pages(release: &str) -> Failure {
        match Path::new("/sys/kernel/mm").exists() {
            true => Failure::new(release, "this kernel has no transparent huge pages")
                .remedy("boot one with CONFIG_TRANSPARENT_HUGEPAGE"),
            false => Failure::new(
                "/sys/kernel/mm",
                "this file is missing, so the size of huge pages is unknown",
            )
            .remedy("mount sysfs on /sys"),
        }
    }

    /// An I/O error that ended the rewriting of the file `from`: while reading it or writing `to`.
    pub(crate) fn rewrite(from: &Path, to: &Path, error: &io::Error) -> Failure {
        let (path, problem) = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => (to, "cannot be written"),
            _ => (from, "cannot be rewritten"),
        };
        Failure {
            problem: format!("{problem}: {}", plain(error)),
            ..Failure::io(path, error)
        }
    }

    /// A file that could not be put at `path`.
    pub(crate) fn replace(path: &Path, error: &ReplaceError) -> Failure {
        let failure = Failure::at(path, error);
        match (error, error.io().map(io::Error::kind)) {
            (ReplaceError::Changed, _) => failure.remedy("try again"),
            (_, Some(io::ErrorKind::StorageFull)) => {
                failure.remedy("free some space and try again")
            }
            _ => failure,
        }
    }

    /// An error of the image reader.
    pub(crate) fn image(path: &Path, error: &ImageError) -> Failure {
        match error {
            ImageError::Read(error) => Failure::io(path, error),
            error => Failure::at(path, error),
        }
    }

    /// An error that concerns a process.
    pub(crate) fn process(pid: i32, error: &ProcessError) -> Failure {
        Failure::new(format_args!("process {pid}"), error)
    }

    /// An error of the store of copies. It names the store or an original.
    pub(crate) fn store(subject: impl fmt::Display, error: &StoreError) -> Failure {
        let failure = Failure::new(subject, error);
        match error {
            StoreError::ReadOnly(_) => failure.remedy("have its owner make the copy"),
            StoreError::Full { .. } => {
                failure.remedy("`hugetext store gc --limit SIZE` allows more")
            }
            StoreError::Busy(_) | StoreError::Changed => failure.remedy("try again"),
            _ => failure,
        }
    }

    /// Adds a remedy.
    pub(crate) fn remedy(self, remedy: impl fmt::Display) -> Failure {
        Failure {
            remedy: Some(remedy.to_string()),
            ..self
        }
    }
}

/// An error in words. The "(os error 13)" of each I/O error is left out, because it does not help
/// the user.
pub(crate) fn plain(error: impl fmt::Display) -> String {
    let text = error.to_string();
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        plain.push_str(rest.strip_prefix(')').unwrap_or(rest));
    }
    plain
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.problem)?;
        self.remedy
            .as_ref()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_words_without_numbers() {
        let error = io::Error::from_raw_os_error(2);
        let failure = Failure::new("file", format_args!("one: {error}; two: {error}, too"));
        assert_eq!(
            failure.to_string(),
            "file: one: No such file or directory; two: No such file or directory, too"
        );
    }
}
