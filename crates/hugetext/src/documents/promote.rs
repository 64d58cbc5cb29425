//! The document of `hugetext promote`.

use super::Document;
use crate::csv::{Columns, Rows};
use hugetext_engine::running::PromotedProcess;
use hugetext_host::Pid;
use schemars::JsonSchema;
use serde::Serialize;

/// All processes.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct PromoteReport {
    pub(crate) dry_run: bool,
    pub(crate) revert: bool,
    pub(crate) processes: Vec<PromotedProcess>,
    pub(crate) refused: Vec<RefusedProcess>,
    /// The log that the change was written to; absent if nothing was changed or no log service
    /// listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<&'static str>,
    /// By how many parts in a thousand each system call slows text on huge pages down; absent where that is little or
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dear_system_call_per_mille: Option<i64>,
}

/// A process that was left unchanged.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RefusedProcess {
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Document for PromoteReport {
    /// One for each process that was looked at.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<&PromotedProcess> = &[
            ("pid", |process| process.pid.to_string()),
            ("name", |process| process.name.clone()),
            ("mapped", |process| process.after.mapped.to_string()),
            ("pmd_mapped_before", |process| {
                process.before.pmd_mapped.to_string()
            }),
            ("pmd_mapped", |process| process.after.pmd_mapped.to_string()),
            ("copied", |process| process.copied.to_string()),
            ("shared", |process| process.shared.to_string()),
            ("took_ns", |process| process.took.as_nanos().to_string()),
        ];
        Some(Rows::of(columns, &self.processes))
    }
}
