//! A file as the state file remembers it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one principal was seen to do with a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// The user.
    pub user: u32,
    /// The control group.
    pub cgroup: String,
    /// Starts, as far as they are remembered.
    pub starts: f64,
    /// Seconds of processor time, as far as they are remembered.
    pub seconds: f64,
}

/// A file that this machine can open by its path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Where it is.
    #[serde(with = "hugetext_host::lossy::exact")]
    pub path: PathBuf,
    /// Its path as processes name it.
    #[serde(with = "hugetext_host::lossy::exact")]
    pub name: PathBuf,
    /// Who ran it.
    pub by: Vec<Share>,
}
