//! The document of `hugetext auto top`.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Processor time since the last look; at the first, since the start of its processes
    Cpu,
    /// Starts that the daemon remembers
    Starts,
    /// Bytes of text in memory
    Text,
    /// The share of that on huge pages
    Huge,
    /// Name
    Name,
}

/// All programs, in an order.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TopReport {
    /// What they are sorted by.
    pub(crate) sort: Order,
    /// Whether a daemon of `hugetext auto` tells starts and states.
    pub(crate) daemon: bool,
    /// Processes of other users, which this user may not see.
    pub(crate) hidden: usize,
    /// The programs.
    pub(crate) programs: Vec<Row>,
}

/// A program.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub(crate) struct Row {
    /// Its path.
    pub(crate) name: String,
    /// Processor time of the processes that run it, since their start.
    pub(crate) cpu_ns: u64,
    /// The same since the last look, in percent of one processor; absent at the first look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_percent: Option<f64>,
    /// Starts that the daemon remembers; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) starts: Option<f64>,
    /// Processes that run it.
    pub(crate) processes: usize,
    /// Bytes of text in memory, of the process that has most, with its libraries.
    pub(crate) text: u64,
    /// Bytes of these by PMD leaves.
    pub(crate) huge: u64,
    /// What the daemon does about the program's own file.
    pub(crate) state: String,
}
