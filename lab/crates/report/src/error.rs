//! Why there is no page.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: io::Error,
    },
    /// A line of a record is no JSON.
    #[error("{}, line {line}: {error}", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// The problem.
        error: serde_json::Error,
    },
    /// The template asks for what the record does not have, or is none.
    #[error("{template}: {error:#}")]
    Template {
        /// Its path.
        template: String,
        /// The problem.
        error: minijinja::Error,
    },
}

impl PageError {
    /// A file that cannot be read or written.
    pub fn file(path: &Path, error: io::Error) -> PageError {
        let path = path.to_owned();
        PageError::File { path, error }
    }
}
