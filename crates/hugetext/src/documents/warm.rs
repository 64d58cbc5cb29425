//! The document of `hugetext warm`.

use super::Document;
use crate::csv::{Columns, Rows, maybe};
use hugetext_engine::{Rung, WarmOutcome};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct WarmReport {
    pub(crate) files: Vec<WarmOutcome>,
}

impl Document for WarmReport {
    /// One for each file.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<&WarmOutcome> = &[
            ("path", |file| file.path.display().to_string()),
            ("leaf", |file| file.leaf.bytes().to_string()),
            ("windows", |file| file.windows.to_string()),
            ("huge_before", |file| file.huge_before.to_string()),
            ("huge", |file| file.huge.to_string()),
            ("elsewhere", |file| {
                maybe(file.nodes.as_ref().map(|placed| placed.elsewhere))
            }),
            ("rung", |file| maybe(file.rung.map(Rung::name))),
            ("took_ns", |file| file.took.as_nanos().to_string()),
        ];
        Some(Rows::of(columns, &self.files))
    }
}
