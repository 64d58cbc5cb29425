//! When copies of a file are worth their memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was seen of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// Bytes of memory that one more copy takes, at most.
    pub bytes: u64,
    /// Nodes that have memory and execute the file.
    pub nodes: u32,
    /// The part of its fetches that goes to another node, of a thousand: [`super::Locality`].
    pub remote_per_mille: u32,
    /// Processes that start with it in a second, all together.
    pub starts_per_second: u64,
    /// Processors of the machine.
    pub processors: u32,
}

/// What copies may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// Bytes of memory for all copies of the file.
    pub memory: u64,
    /// The most copies of one file.
    pub copies: u32,
    /// Starts per second that one copy is left to serve alone; 0 counts as 1.
    pub starts_per_copy: u64,
}

/// How many copies of a file are worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "replicas")]
pub enum ReplicaDecision {
    /// None: all use the file itself.
    None {
        /// The reason.
        why: NoReplica,
    },
    /// The same number on each node that executes it.
    PerNode {
        /// All of them together: a multiple of the nodes, two at least.
        copies: u32,
        /// Bytes of memory that they take, at most.
        bytes: u64,
    },
    /// Spread over the processes that start it, on any node.
    PerGroup {
        /// Two at least.
        copies: u32,
        /// Bytes of memory that they take, at most.
        bytes: u64,
    },
}

/// Why no copy is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoReplica {
    /// Its text is near to those who run it, and they start too seldom to meet at its lock.
    NothingToGain,
    /// Two copies do not fit in the memory, or are more than is allowed.
    NoRoom,
}

/// Fewer remote fetches than this, of a thousand, are left alone. The first fetch of a cache line alone
/// goes to the node; a tenth of them is below what a benchmark of minutes can see.
const WORTH_REMOTE: u32 = 100;

/// Starts per second that one lock allows at most, by the model of lab/crates/rmap (lab/results/replicas.md). Its times
/// are upper bounds.
const CEILING: u64 = 26_000;

/// Starts per second with one file up to which its lock is left alone, where nothing better is known: half of the ceiling. At 8,500, which 16
/// processors reached, copies made no difference that could be measured (lab/results/replicas.md).
pub const SETTLED_STARTS: u64 = CEILING / 2;

/// Decides whether copies of a file are worth it, and how many.
///
/// Two reasons count. Nodes that fetch text from each other get copies of their own, or none at all.
/// Starts that meet at the lock of the file are divided, by as many copies as fit. Copies are never more
/// than processors.
pub fn decide_replicas(facts: &ReplicaFacts, limits: &ReplicaLimits) -> ReplicaDecision {
    let by_node = if facts.remote_per_mille >= WORTH_REMOTE {
        facts.nodes
    } else {
        1
    };
    let by_starts = facts
        .starts_per_second
        .div_ceil(limits.starts_per_copy.max(1))
        .max(1);
    let by_starts = u32::try_from(by_starts)
        .unwrap_or(u32::MAX)
        .min(facts.processors.max(1));
    if by_node < 2 && by_starts < 2 {
        return ReplicaDecision::None {
            why: NoReplica::NothingToGain,
        };
    }
    let room = limits.memory.checked_div(facts.bytes);
    let room = room.map_or(u32::MAX, |room| u32::try_from(room).unwrap_or(u32::MAX));
    let most = room.min(limits.copies);
    let taken = |copies: u32| facts.bytes.saturating_mul(u64::from(copies));
    if by_node >= 2 && most >= by_node {
        let rounds = by_starts.min(most) / by_node;
        let copies = by_node.saturating_mul(rounds.max(1));
        return ReplicaDecision::PerNode {
            copies,
            bytes: taken(copies),
        };
    }
    let copies = by_starts.min(most);
    if copies < 2 {
        return ReplicaDecision::None {
            why: NoReplica::NoRoom,
        };
    }
    ReplicaDecision::PerGroup {
        copies,
        bytes: taken(copies),
    }
}

impl ReplicaDecision {
    /// The number of copies; 0 for none.
    pub fn copies(self) -> u32 {
        match self {
            ReplicaDecision::None { .. } => 0,
            ReplicaDecision::PerNode { copies, .. } | ReplicaDecision::PerGroup { copies, .. } => {
                copies
            }
        }
    }

    /// Bytes of memory that all of them take, at most.
    pub fn bytes(self) -> u64 {
        match self {
            ReplicaDecision::None { .. } => 0,
            ReplicaDecision::PerNode { bytes, .. } | ReplicaDecision::PerGroup { bytes, .. } => {
                bytes
            }
        }
    }
}
