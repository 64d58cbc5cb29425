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

/// The copy that ran last instead of a file.
#[derive(JsonSchema, Serialize)]
#[serde(transparent)]
pub(crate) struct StoreCopy(pub(crate) EntryInfo);

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
