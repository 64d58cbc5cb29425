//! The document of `hugetext keep apply`. That of `keep ls` is a
//! [`hugetext_engine::keep::KeepList`].

use hugetext_engine::keep::KeptFile;
use schemars::JsonSchema;
use serde::Serialize;

/// What `apply` did.
#[derive(JsonSchema, Serialize)]
pub(crate) struct KeepReport {
    pub(crate) files: Vec<KeptFile>,
    pub(crate) problems: Vec<String>,
}
