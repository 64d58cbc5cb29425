//! The documents of `hugetext store`.

use std::path::PathBuf;

use hugetext_store::{Collected, EntryInfo, Flaw};
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreListing {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) store: PathBuf,
    /// Limit on the bytes of all copies.
    pub(crate) limit: u64,
    pub(crate) entries: Vec<EntryInfo>,
}

/// The file that ran.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RanFile {
    /// What debuggers and profilers need: the copy, or the program's own file.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) file: PathBuf,
    /// The path under which it ran.
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    /// The copy; null if the program's own file ran.
    pub(crate) copy: Option<EntryInfo>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreRemoval {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) store: PathBuf,
    #[serde(flatten)]
    pub(crate) collected: Collected,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreVerification {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) store: PathBuf,
    pub(crate) entries: usize,
    pub(crate) flaws: Vec<Flaw>,
}
