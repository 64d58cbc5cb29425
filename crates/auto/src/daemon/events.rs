//! What the daemon is given, and what it tells.

use std::io;
use std::path::PathBuf;

use hugetext_engine::keep::HoldReport;
use hugetext_leaf::hold::Costs;

use crate::config::{ConfigError, Mode};
use crate::fixed::FixedList;
pub use crate::running::PromotionNews;
use crate::sight::SourceName;

/// What the daemon reads and writes.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub config: PathBuf,
    /// The state file.
    pub state: PathBuf,
    /// The directory of the documents that it writes.
    pub status: PathBuf,
    /// The directory that says which containers' pods ask for promotion.
    pub requests: PathBuf,
    /// Whether to only observe, also if the configuration says mode = "act".
    pub observe: bool,
    /// The one source of starts to use; the best if it is missing.
    pub source: Option<SourceName>,
    /// The administrator's lists. What they name is held even if the daemon only observes.
    pub lists: Option<FixedList>,
}

/// What the daemon tells the program that started it.
#[derive(Debug)]
pub enum Event {
    /// It has begun.
    Began {
        /// How it sees starts.
        source: SourceName,
        /// Whether it acts.
        mode: Mode,
        /// What the machine pays.
        costs: Costs,
    },
    /// A file is held.
    Held {
        /// The file.
        path: PathBuf,
        /// Bytes.
        bytes: u64,
    },
    /// A file is no longer held.
    Released {
        /// The file.
        path: PathBuf,
        /// Bytes.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// A process was promoted, or has its files again.
    Promotion(PromotionNews),
    /// The new configuration cannot be used; the old one stays.
    BadConfig(ConfigError),
    /// The administrator's lists are held, as far as possible.
    Listed(HoldReport),
    /// Something does not work, or was given up.
    Problem(String),
}

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine cannot hold text on huge pages.
    #[error(transparent)]
    Host(#[from] hugetext_engine::Error),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::System { what, error }
}
