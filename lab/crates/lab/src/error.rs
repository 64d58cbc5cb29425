//! The errors of the lab, each as one line with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::kernel::KernelId;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{tool} is not installed: run 'scripts/setup.sh lab'")]
    NoTool { tool: String },
    #[error("{tool} failed: {message}")]
    Tool { tool: String, message: String },
    #[error(
        "no Debian archive among this machine's apt sources: run 'apt-get update', or fetch on a Debian machine"
    )]
    NoArchive,
    #[error("the archive cannot be read ({0}): the first fetch needs the network")]
    Offline(String),
    #[error("{0} is not in the cache: run 'hugetext-lab fetch {0}'")]
    NotFetched(KernelId),
    #[error("{}: differs from the fetched file: run 'hugetext-lab fetch --again'", .0.display())]
    Corrupted(PathBuf),
    #[error("{kernel}: {what}; its console is in {}", console.display())]
    Guest {
        kernel: String,
        what: String,
        console: PathBuf,
    },
    #[error("lab/crates/lab/rules.toml: {0}")]
    Table(String),
    #[error(transparent)]
    Page(#[from] hugetext_report::PageError),
    #[error("{0}")]
    Usage(String),
}

pub(crate) type Result<T> = std::result::Result<T, LabError>;

/// Adds the path that an I/O error concerns.
pub(crate) trait At<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| LabError::Io {
            path: path.as_ref().to_owned(),
            source,
        })
    }
}
