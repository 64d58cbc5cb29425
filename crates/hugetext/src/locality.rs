//! Formats on which NUMA nodes text lies.

use hugetext_engine::TextNodes;
use hugetext_leaf::replica::Node;

use crate::table::{bytes, figures, percent};

/// One line: which nodes run the process, and how much of its text is there.
pub(crate) fn summary(nodes: &TextNodes) -> String {
    let on: Vec<String> = nodes
        .runs_on
        .iter()
        .map(|runs| runs.node.to_string())
        .collect();
    let bound = match nodes.bound_to {
        Some(_) => ", bound there",
        None => "",
    };
    format!(
        "runs on {}{bound}: {} of its text local, {} remote ({})",
        on.join(", "),
        bytes(nodes.locality.local),
        bytes(nodes.locality.remote),
        remote(Some(nodes)),
    )
}

/// The remote part; nothing if it is unknown.
pub(crate) fn remote(nodes: Option<&TextNodes>) -> String {
    let near = nodes.map(|nodes| nodes.locality);
    near.map_or_else(String::new, |near| {
        percent(near.remote, near.local.saturating_add(near.remote))
    })
}

/// A table of mappings by node; `file` names the mapping that starts at an address. Nothing where all text
/// lies on one node.
pub(crate) fn node_table(nodes: &TextNodes, file: impl Fn(u64) -> String) -> String {
    let columns: Vec<Node> = nodes.bytes.each().map(|(node, _)| node).collect();
    if columns.len() < 2 {
        return String::new();
    }
    let mut header: Vec<String> = vec!["address".to_owned()];
    header.extend(columns.iter().map(ToString::to_string));
    header.extend(["remote", "file"].map(str::to_owned));
    let rows = nodes.mappings.iter().map(|mapping| {
        let start = mapping.addresses.start;
        let near = nodes.locality_of(&mapping.bytes);
        let mut row = vec![format!("{start:#x}")];
        row.extend(columns.iter().map(|node| bytes(mapping.bytes.on(*node))));
        row.extend([bytes(near.remote), file(start)]);
        row
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    figures(&header, &[header.len() - 1], rows.collect()) + "\n"
}
