//! NUMA nodes, and what lies and runs on them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A NUMA node, by the kernel's number (/sys/devices/system/node/nodeN).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Node(pub u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Bytes of memory by the node that they lie on.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct NodeBytes(BTreeMap<Node, u64>);

impl NodeBytes {
    /// Adds `bytes` on `node`. A sum stops at the largest number.
    pub fn add(&mut self, node: Node, bytes: u64) {
        let sum = self.0.entry(node).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &NodeBytes) {
        for (node, bytes) in other.each() {
            self.add(node, bytes);
        }
    }

    /// Bytes on `node`.
    pub fn on(&self, node: Node) -> u64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    /// Bytes on all nodes.
    pub fn total(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The nodes with bytes, ascending.
    pub fn each(&self) -> impl Iterator<Item = (Node, u64)> {
        self.0.iter().map(|(node, bytes)| (*node, *bytes))
    }

    /// Whether no byte lies anywhere.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

impl FromIterator<(Node, u64)> for NodeBytes {
    fn from_iter<I: IntoIterator<Item = (Node, u64)>>(parts: I) -> NodeBytes {
        let mut sum = NodeBytes::default();
        for (node, bytes) in parts {
            sum.add(node, bytes);
        }
        sum
    }
}

/// How much each node runs of a process, in any unit: time, or threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Runners(BTreeMap<Node, u64>);

impl Runners {
    /// Adds a thread that last ran on `node` and has `weight`, which counts as at least 1.
    pub fn add(&mut self, node: Node, weight: u64) {
        let sum = self.0.entry(node).or_default();
        *sum = sum.saturating_add(weight.max(1));
    }

    /// The nodes, ascending, each with its weight.
    pub fn each(&self) -> impl Iterator<Item = (Node, u64)> {
        self.0.iter().map(|(node, weight)| (*node, *weight))
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    fn total(&self) -> u128 {
        self.0.values().map(|weight| u128::from(*weight)).sum()
    }
}

/// How much text is near to the processors that execute it. The sum is the text that lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct Locality {
    /// Bytes on the node that runs the process. Where several nodes run it, each page counts for the part
    /// that its own node has in that.
    pub local: u64,
    /// The other bytes.
    pub remote: u64,
}

impl Locality {
    /// Of `text` for the threads of `runners`. Without threads, all of it is local.
    pub fn of(text: &NodeBytes, runners: &Runners) -> Locality {
        let all = text.total();
        let total = runners.total();
        if total == 0 {
            return Locality {
                local: all,
                remote: 0,
            };
        }
        let near: u128 = runners
            .each()
            .map(|(node, weight)| u128::from(text.on(node)) * u128::from(weight))
            .fold(0, u128::saturating_add);
        let local = u64::try_from(near / total).unwrap_or(all).min(all);
        Locality {
            local,
            remote: all - local,
        }
    }

    /// The remote part of a thousand.
    pub fn remote_per_mille(self) -> u32 {
        let all = u128::from(self.local) + u128::from(self.remote);
        let part = (u128::from(self.remote) * 1000).checked_div(all);
        part.and_then(|part| u32::try_from(part).ok()).unwrap_or(0)
    }
}

/// One of several copies of a file.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Replica {
    /// Its page cache lies on a node.
    OnNode(Node),
    /// One of a number of equal copies, counted from 0. It lies wherever it was read first.
    Numbered(u32),
}

impl Replica {
    /// The node that it lies on; `None` if any may hold it.
    pub fn node(self) -> Option<Node> {
        match self {
            Replica::OnNode(node) => Some(node),
            Replica::Numbered(_) => None,
        }
    }
}

impl fmt::Display for Replica {
    /// As it stands in names of copies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replica::OnNode(Node(number)) => write!(f, "node{number}"),
            Replica::Numbered(number) => write!(f, "replica{number}"),
        }
    }
}
