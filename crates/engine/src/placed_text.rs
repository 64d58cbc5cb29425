//! Where the text of a file lies among the NUMA nodes, and why some of it lies elsewhere than wanted.

use hugetext_leaf::replica::{Node, NodeBytes};
use schemars::JsonSchema;
use serde::Serialize;

/// Where the text of a file lies, before and after it was placed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PlacedText {
    /// The nodes that it is wanted on.
    pub wanted: Vec<Node>,
    /// Bytes of its text in the page cache before, by node.
    pub before: NodeBytes,
    /// The same now.
    pub after: NodeBytes,
    /// Bytes that are not where they are wanted.
    pub elsewhere: u64,
    /// Why; absent if nothing is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<PlaceObstacle>,
}

/// Why text stays on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceObstacle {
    /// Other processes map it. Moving it needs CAP_SYS_NICE.
    MappedByOthers,
    /// The kernel could not move it now: it is being written or read, or the node has no memory left.
    NotMovable,
    /// No change was asked for.
    OnlyLooked,
}
