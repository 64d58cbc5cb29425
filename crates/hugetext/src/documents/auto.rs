//! The documents of `hugetext auto`: its events, and `auto why`. That of `auto status` is a
//! [`hugetext_auto::status::Status`], and whether its daemon still runs.

use std::path::PathBuf;

use hugetext_auto::author::DaemonState;
use hugetext_auto::status::{FileStatus, Status};
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// What happened, as a line of the journal.
#[derive(JsonSchema, Serialize)]
pub(crate) struct AutoEvent {
    /// What: `begun`, `held`, `released`, `promoted`, `reverted` or `listed`.
    pub(crate) event: &'static str,
    /// The file that it concerns; empty if it concerns none.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    /// Bytes of text that it concerns.
    pub(crate) bytes: u64,
    /// Why; for `promoted` and `reverted`, the process.
    pub(crate) reason: String,
}

/// What is known of one program, and why it is held or not.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Explanation {
    /// The file that was asked for.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    /// What the daemon knows of it; absent if it never saw it run, or if nothing of it can be held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) known: Option<FileStatus>,
    /// Why, in words.
    pub(crate) reason: String,
}

/// What the daemon said last, and whether it still runs.
#[derive(JsonSchema, Serialize)]
pub(crate) struct StatusReport {
    /// What became of the daemon.
    pub(crate) daemon: DaemonState,
    /// Seconds since it said this.
    pub(crate) age_seconds: u64,
    /// What it said.
    #[serde(flatten)]
    pub(crate) status: Status,
}

impl StatusReport {
    pub(crate) fn new(status: Status) -> StatusReport {
        StatusReport {
            daemon: status.daemon(),
            age_seconds: status.age().as_secs(),
            status,
        }
    }
}
