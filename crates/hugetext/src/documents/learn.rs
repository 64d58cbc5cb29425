//! The document of `hugetext learn`.

use std::path::PathBuf;

use hugetext_host::Way;
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

#[derive(JsonSchema, Serialize)]
pub(crate) struct LearnReport {
    /// The command and its arguments.
    pub(crate) argv: Vec<String>,
    /// Total number of executions.
    pub(crate) executions: u64,
    /// How they were watched.
    pub(crate) by: Way,
    /// At least this many executions are unknown, because reports were lost.
    pub(crate) lost: u64,
    /// Executions of programs that trace others. With ptrace, the programs that they start are
    /// unknown.
    pub(crate) tracers: u64,
    /// The highest product of executions and huge bytes comes first.
    pub(crate) files: Vec<LearnedFile>,
}

/// A file that gains.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct LearnedFile {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    /// How many processes executed it or mapped it.
    pub(crate) executions: u64,
    /// Bytes of text.
    pub(crate) text: u64,
    /// Bytes of text that would be huge.
    pub(crate) huge: u64,
}
