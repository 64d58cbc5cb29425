//! The document of `hugetext run --dry-run`.

use std::path::PathBuf;

use hugetext_engine::prepare::PrepareStep;
use hugetext_leaf::replica::{ChosenReplica, Replica};
use hugetext_leaf::verdict::LeafUse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// What would be done with each file.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RunPlan<'h> {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) program: PathBuf,
    /// What the copy that it uses costs; absent unless one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<ReplicaCost>,
    pub(crate) files: Vec<PrepareStep<'h>>,
    /// How the text of the command is mapped.
    pub(crate) leaves: LeafUse,
    /// How many files are too small for a window of text.
    pub(crate) small: usize,
    #[serde(skip)]
    pub(crate) small_files: Vec<PathBuf>,
    /// Errors in the search for files, one line each.
    pub(crate) problems: Vec<String>,
}

/// What replicas cost, at most, in bytes. Files on a filesystem that shares blocks take none on disk if the
/// store is on the same one.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub(crate) struct ReplicaCost {
    pub(crate) replica: Replica,
    /// How many there may be.
    pub(crate) copies: u32,
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    /// The memory of all of them.
    pub(crate) all_memory: u64,
    pub(crate) all_disk: u64,
}

impl ReplicaCost {
    /// The cost of the copies in `steps`.
    pub(crate) fn of(chosen: &ChosenReplica, steps: &[PrepareStep<'_>]) -> Option<ReplicaCost> {
        let replica = chosen.replica?;
        let copied = || steps.iter().filter(|step| step.needs_store());
        let memory = copied()
            .map(PrepareStep::memory)
            .fold(0, u64::saturating_add);
        let disk = copied().map(PrepareStep::disk).fold(0, u64::saturating_add);
        let all = |one: u64| one.saturating_mul(u64::from(chosen.copies));
        Some(ReplicaCost {
            replica,
            copies: chosen.copies,
            memory,
            disk,
            all_memory: all(memory),
            all_disk: all(disk),
        })
    }
}
