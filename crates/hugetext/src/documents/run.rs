//! The document of `hugetext run --dry-run`.

use super::Document;
use crate::csv::{Columns, Rows};
use std::path::PathBuf;

use hugetext_engine::prepare::PrepareStep;
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// What would be done with each file.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RunPlan<'h> {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) program: PathBuf,
    pub(crate) files: Vec<PrepareStep<'h>>,
    /// How many files are too small for a window of text.
    pub(crate) small: usize,
    #[serde(skip)]
    pub(crate) small_files: Vec<PathBuf>,
    /// Errors in the search for files, one line each.
    pub(crate) problems: Vec<String>,
}

impl Document for RunPlan<'_> {
    /// One for each file.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<&PrepareStep<'_>> = &[
            ("path", |step| step.path.display().to_string()),
            ("text", |step| step.text.to_string()),
            ("now", |step| step.now.to_string()),
            ("after", |step| step.after.to_string()),
            ("action", |step| step.action.name().to_owned()),
            ("may_stand_in", |step| step.may_stand_in.to_string()),
        ];
        Some(Rows::of(columns, &self.files))
    }
}
