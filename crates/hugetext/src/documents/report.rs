//! The document of `hugetext report`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// The file that was written.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ReportWritten {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
}
