//! The document of `hugetext warm`.

use hugetext_engine::WarmOutcome;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct WarmReport {
    pub(crate) files: Vec<WarmOutcome>,
}
