//! On which NUMA nodes the text of a process lies, and which of them run it.

use hugetext_host::{
    Nodes, Pid, TextMapping, Whose, node_runs, numa_maps, running_nodes, text_mappings,
};
use hugetext_leaf::replica::{Locality, Node, NodeBytes, Runners};
use hugetext_leaf::{Leaf, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;

/// The text of a process by node.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextNodes {
    /// The nodes that run it.
    pub runs_on: Vec<RunsOn>,
    /// The node of all processors that it may use; absent if those are of several nodes, or if the
    /// machine has one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<Node>,
    /// Bytes of text in its page tables, by the node that they lie on.
    pub bytes: NodeBytes,
    /// How much of it is near.
    #[serde(flatten)]
    pub locality: Locality,
    /// How the nodes were found.
    pub source: NodeSource,
    /// Its mappings with text in memory, ascending.
    pub mappings: Vec<MappingNodes>,
}

/// How much a node runs of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RunsOn {
    /// The node.
    pub node: Node,
    /// Ticks of processor time, of all threads that ran there last; 1 at least for each.
    pub weight: u64,
}

/// Where nodes were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeSource {
    /// move_pages(2), page by page.
    MovePages,
    /// /proc/PID/numa_maps, one sum for a mapping: windows are unknown.
    NumaMaps,
}

/// The nodes of one mapping.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MappingNodes {
    /// Its addresses.
    pub addresses: Span,
    /// Bytes in the page tables, by node.
    pub bytes: NodeBytes,
    /// The same for each window of the leaf in which text is in memory; empty if only sums are known.
    pub windows: Vec<WindowNodes>,
}

/// The nodes of a window of addresses.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct WindowNodes {
    /// The part of the window that is mapped.
    pub addresses: Span,
    /// Bytes in the page tables, by node.
    pub bytes: NodeBytes,
}

impl TextNodes {
    /// How much of a part of its text is near.
    pub fn locality_of(&self, part: &NodeBytes) -> Locality {
        let mut runners = Runners::default();
        for runs in &self.runs_on {
            runners.add(runs.node, runs.weight);
        }
        Locality::of(part, &runners)
    }
}

/// The text of process `pid` by node, and by windows of `leaf`. Needs what reading its page map needs.
pub fn text_nodes(pid: Pid, leaf: Leaf, nodes: &Nodes) -> Result<TextNodes, Error> {
    let failed = Error::process(pid);
    let texts = text_mappings(pid).map_err(&failed)?;
    let running = running_nodes(pid, nodes).map_err(failed)?;
    let (mappings, source) = match page_by_page(pid, &texts, leaf) {
        Ok(mappings) => (mappings, NodeSource::MovePages),
        Err(error) => match from_sums(pid, &texts) {
            Ok(mappings) => (mappings, NodeSource::NumaMaps),
            // The first error is that of the method that most machines permit.
            Err(_) => return Err(Error::Nodes { pid, source: error }),
        },
    };
    let mut bytes = NodeBytes::default();
    for mapping in &mappings {
        bytes.merge(&mapping.bytes);
    }
    let runs_on = running.runners.each();
    Ok(TextNodes {
        runs_on: runs_on
            .map(|(node, weight)| RunsOn { node, weight })
            .collect(),
        bound_to: match running.allowed.as_slice() {
            [only] if nodes.all().len() > 1 => Some(*only),
            _ => None,
        },
        locality: Locality::of(&bytes, &running.runners),
        bytes,
        source,
        mappings,
    })
}

fn page_by_page(pid: Pid, texts: &[TextMapping], leaf: Leaf) -> std::io::Result<Vec<MappingNodes>> {
    let whose = if pid == Pid::own() {
        Whose::Own
    } else {
        Whose::Process(pid)
    };
    let mut mappings = Vec::new();
    for text in texts.iter().filter(|text| text.rss > 0) {
        let mut windows: Vec<WindowNodes> = Vec::new();
        for run in node_runs(whose, text.addresses)? {
            for window in windows_around(run.addresses, leaf) {
                let bytes = run.addresses.intersect(&window).len();
                let mapped = window.intersect(&text.addresses);
                match windows.last_mut() {
                    Some(last) if last.addresses == mapped => last.bytes.add(run.node, bytes),
                    _ => windows.push(WindowNodes {
                        addresses: mapped,
                        bytes: NodeBytes::from_iter([(run.node, bytes)]),
                    }),
                }
            }
        }
        let mut bytes = NodeBytes::default();
        for window in &windows {
            bytes.merge(&window.bytes);
        }
        mappings.push(MappingNodes {
            addresses: text.addresses,
            bytes,
            windows,
        });
    }
    Ok(mappings)
}

/// The windows of `leaf` that `addresses` touches.
fn windows_around(addresses: Span, leaf: Leaf) -> impl Iterator<Item = Span> {
    let step = leaf.bytes();
    let first = addresses.start - leaf.offset_in(addresses.start);
    let starts = (first..addresses.end).step_by(step as usize);
    starts.map(move |start| Span::new(start, start.saturating_add(step)))
}

fn from_sums(pid: Pid, texts: &[TextMapping]) -> std::io::Result<Vec<MappingNodes>> {
    let sums = numa_maps(pid)?;
    let of = |text: &TextMapping| {
        let (_, bytes) = sums
            .iter()
            .find(|(start, _)| *start == text.addresses.start)?;
        Some(MappingNodes {
            addresses: text.addresses,
            bytes: bytes.clone(),
            windows: Vec::new(),
        })
    };
    let found = texts.iter().filter_map(of);
    Ok(found.filter(|mapping| !mapping.bytes.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_this_test_is_found_by_pages_and_by_sums() {
        let own = Pid::own();
        let nodes = Nodes::this();
        let found = match text_nodes(own, Leaf::M2, &nodes) {
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
            Ok(found) => found,
        };
        assert!(!found.bytes.is_empty() && !found.runs_on.is_empty());
        assert_eq!(
            found.locality.local + found.locality.remote,
            found.bytes.total()
        );
        if nodes.with_memory().len() == 1 {
            assert_eq!(found.locality.remote, 0);
        }
        let texts = text_mappings(own).unwrap();
        let sums = from_sums(own, &texts).unwrap();
        assert!(!sums.is_empty());
        for mapping in &found.mappings {
            let of_windows: u64 = mapping.windows.iter().map(|w| w.bytes.total()).sum();
            assert_eq!(of_windows, mapping.bytes.total());
        }
    }

    #[test]
    fn a_run_is_cut_at_windows() {
        let run = Span::new(0x1f_f000, 0x60_1000);
        let starts: Vec<u64> = windows_around(run, Leaf::M2).map(|w| w.start).collect();
        assert_eq!(starts, [0, 0x20_0000, 0x40_0000, 0x60_0000]);
    }
}
