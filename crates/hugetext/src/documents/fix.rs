//! The document of `hugetext fix`.

use std::path::PathBuf;

use hugetext_elf::{Plan, Verified};
use hugetext_engine::WarmOutcome;
use hugetext_leaf::{ColdStart, Geometry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// What a fix did, or would do.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct FixReport {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    pub(crate) geometry: Geometry,
    /// Bytes of text.
    pub(crate) text: u64,
    /// The part of it within reach before; it holds for this kernel and loader.
    pub(crate) reached_before: u64,
    #[serde(flatten)]
    pub(crate) outcome: FixOutcome,
    /// Absent if no file was written.
    #[serde(flatten)]
    pub(crate) written: Option<WrittenReport>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

/// The plan, or the reason that no plan exists.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FixOutcome {
    Plan {
        /// Text bytes within reach afterwards.
        reached_after: u64,
        /// Whether the layout needs no change.
        done_already: bool,
        /// What glibc.elf.thp gives on a cold start afterwards.
        cold_start: ColdStart,
        /// The readahead of the device of the old file in bytes, if it is so long that fewer windows are huge then.
        #[serde(skip_serializing_if = "Option::is_none")]
        long_readahead: Option<u64>,
        plan: Box<Plan>,
    },
    Refused(String),
}

/// The new file.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct WrittenReport {
    /// Its path.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) output: PathBuf,
    /// The result of verification.
    pub(crate) verified: Verified,
    /// The state of its page cache, if it was laid out for this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<WarmOutcome>,
}
