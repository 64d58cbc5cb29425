//! The document of `hugetext promote`.

use hugetext_engine::running::PromotedProcess;
use hugetext_host::Pid;
use hugetext_leaf::verdict::LeafUse;
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
    /// How text is to be mapped: as it is where leaves do harm, unless somebody named a method.
    pub(crate) leaves: LeafUse,
    /// By how many parts in a thousand each system call slows text on huge pages down; absent where that is little or
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) costly_system_call_per_mille: Option<i64>,
}

/// A process that was left unchanged.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RefusedProcess {
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) reason: String,
}
