//! The documents of `hugetext keep apply` and `keep daemon`. That of `keep ls` is a
//! [`hugetext_engine::keep::KeepList`].

use super::Document;
use crate::csv::{Columns, Rows};
use hugetext_engine::keep::{HoldReport, KeptFile};
use schemars::JsonSchema;
use serde::Serialize;

/// What `apply` did.
#[derive(JsonSchema, Serialize)]
pub(crate) struct KeepReport {
    pub(crate) files: Vec<KeptFile>,
    pub(crate) problems: Vec<String>,
}

/// What is held, in the document of the daemon.
#[derive(PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct DaemonReport {
    #[serde(flatten)]
    pub(crate) held: HoldReport,
    /// Files that could not be kept, one line each.
    pub(crate) problems: Vec<String>,
}

impl Document for KeepReport {
    /// One for each file.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<&KeptFile> = &[
            ("path", |file| file.path.display().to_string()),
            ("warm", |file| file.warm.display().to_string()),
            ("huge", |file| file.huge.to_string()),
            ("done", |file| file.done.to_string()),
        ];
        Some(Rows::of(columns, &self.files))
    }
}

impl Document for DaemonReport {}
