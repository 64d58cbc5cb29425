//! The documents of `hugetext check`: of files, of processes, and of a comparison.

use std::path::PathBuf;

use hugetext_elf::PermissionChange;
use hugetext_engine::{Assessment, ProcessText, TextIn, TextNodes};
use hugetext_leaf::{Leaf, Span, Version};
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;
use hugetext_host::Pid;

/// The result of a check of files.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct CheckReport {
    pub(crate) kernel: Version,
    pub(crate) summary: CheckSummary,
    pub(crate) files: Vec<Assessment>,
    /// The library that holds most of the text that a program maps, if it was asked about that program alone and its own
    /// text is smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text_elsewhere: Option<TextIn>,
}

/// The sum over files.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub(crate) struct CheckSummary {
    /// Programs and shared objects read.
    pub(crate) files: usize,
    /// Files that could not be read.
    pub(crate) errors: usize,
    /// Programs of architectures whose page sizes are unknown.
    pub(crate) unknown_architecture: usize,
    /// Bytes of text.
    pub(crate) text: u64,
    /// The part of it within reach of the largest worthwhile leaf, before a fix.
    pub(crate) reached: u64,
    /// The part of it within reach after `fix`.
    pub(crate) after_fix: u64,
    /// The part of it within reach after `fix --strategy merge`.
    pub(crate) after_merge: u64,
}

/// The result of a check of processes.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ProcessCheckReport {
    pub(crate) processes: Vec<ProcessCheck>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ProcessCheck {
    pub(crate) pid: Pid,
    pub(crate) leaf: Leaf,
    /// Bytes of text mapped from files.
    pub(crate) text: u64,
    /// The part of it in windows: the text that leaves could map at its present addresses.
    pub(crate) reached: u64,
    /// The part of it that PMD leaves map.
    pub(crate) actual: u64,
    pub(crate) mappings: Vec<ProcessText>,
    /// On which nodes its text lies, and which run it; absent on a machine of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<TextNodes>,
}

/// The result of a comparison.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SameReport {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) old: PathBuf,
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) new: PathBuf,
    pub(crate) same: bool,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<String>,
    /// Read-only addresses that become executable.
    pub(crate) permissions: Vec<PermissionChange>,
    /// Addresses that only the new file maps; they hold zeros.
    pub(crate) added: Vec<Span>,
}
