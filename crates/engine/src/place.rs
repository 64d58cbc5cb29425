//! The page cache of a program's text on a chosen NUMA node.
//!
//! Text that is not cached yet is read under a memory policy, so that it comes to lie where it is wanted.
//! Text that lies elsewhere is moved. Whether that worked is read from the page tables afterwards.

use hugetext_host::{
    FileMapping, MemoryPolicy, NodeRun, Nodes, Placement, Sharers, Whose, current_node,
    move_to_node, node_runs,
};
use hugetext_leaf::Span;
use hugetext_leaf::replica::{Node, NodeBytes};

use crate::cached_text::{map, map_cached};
use crate::error::Error;
use crate::method::WarmPolicy;
use crate::on_host::ProgramOnHost;
use crate::placed_text::{PlaceObstacle, PlacedText};
use crate::warm::{WarmOutcome, warm};

/// Where text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeChoice {
    /// On this node.
    On(Node),
    /// On all nodes with memory, window by window in turn.
    Spread,
    /// On the node that runs this process now.
    Local,
}

impl NodeChoice {
    /// The nodes that it means on this machine. An error if they do not exist or have no memory.
    pub fn nodes(self, nodes: &Nodes) -> Result<Vec<Node>, Error> {
        let known = nodes.with_memory();
        let wanted = match self {
            NodeChoice::Spread => return Ok(known),
            NodeChoice::On(node) => node,
            NodeChoice::Local => current_node().unwrap_or(Node(0)),
        };
        if known.contains(&wanted) {
            return Ok(vec![wanted]);
        }
        Err(Error::NoNode {
            node: wanted,
            known,
        })
    }
}

/// Warms a program with its text where it is wanted, and measures where it is then.
pub fn warm_on(
    program: &ProgramOnHost<'_>,
    policy: WarmPolicy,
    wanted: &[Node],
) -> Result<WarmOutcome, Error> {
    let before = cached_by_node(program)?;
    let outcome = if policy == WarmPolicy::LookOnly {
        warm(program, policy)?
    } else {
        let _policy = set_policy(wanted)?;
        let outcome = warm(program, policy)?;
        read_text(program)?;
        outcome
    };
    let mut elsewhere = 0;
    let mut refused = None;
    for text in program.text_pages() {
        let windows = Windows::of(program, text, wanted)?;
        if policy != WarmPolicy::LookOnly {
            refused = windows.bring()?.or(refused);
        }
        elsewhere += windows.misplaced()?;
    }
    let after = cached_by_node(program)?;
    let why = match policy {
        WarmPolicy::LookOnly => PlaceObstacle::OnlyLooked,
        _ => refused.unwrap_or(PlaceObstacle::NotMovable),
    };
    Ok(WarmOutcome {
        nodes: Some(PlacedText {
            wanted: wanted.to_vec(),
            before,
            after,
            elsewhere,
            obstacle: (elsewhere > 0).then_some(why),
        }),
        ..outcome
    })
}

/// A memory policy that puts new page cache on these nodes, until it is dropped.
pub fn set_policy(wanted: &[Node]) -> Result<MemoryPolicy, Error> {
    let placement = match wanted {
        [only] => Placement::On(*only),
        several => Placement::Spread(several.to_vec()),
    };
    MemoryPolicy::set(&placement).map_err(|source| Error::NoPolicy { source })
}

/// Reads what is not in the page cache yet.
fn read_text(program: &ProgramOnHost<'_>) -> Result<(), Error> {
    for text in program.text_pages() {
        let read = map(program, text).and_then(|mapping| mapping.touch(text));
        read.map_err(Error::io(&program.program.path))?;
    }
    Ok(())
}

/// Bytes of the program's text in the page cache, by node. Nothing is read from disk, except for a user who
/// neither owns the file nor may write it: to such a user all of it seems cached.
pub fn cached_by_node(program: &ProgramOnHost<'_>) -> Result<NodeBytes, Error> {
    let mut sum = NodeBytes::default();
    for text in program.text_pages() {
        let mapping = map_cached(program, text).map_err(Error::io(&program.program.path))?;
        for run in runs(program, mapping.addresses())? {
            sum.add(run.node, run.addresses.len());
        }
    }
    Ok(sum)
}

fn runs(program: &ProgramOnHost<'_>, addresses: Span) -> Result<Vec<NodeRun>, Error> {
    node_runs(Whose::Own, addresses).map_err(|source| Error::NodesOfFile {
        path: program.program.path.clone(),
        source,
    })
}

/// A range of text, mapped here as far as it is cached, with the node that each window is wanted on.
struct Windows<'p> {
    program: &'p ProgramOnHost<'p>,
    _mapping: FileMapping,
    each: Vec<(Span, Node)>,
}

impl<'p> Windows<'p> {
    fn of(
        program: &'p ProgramOnHost<'p>,
        text: Span,
        wanted: &[Node],
    ) -> Result<Windows<'p>, Error> {
        let mapping = map_cached(program, text).map_err(Error::io(&program.program.path))?;
        let (addresses, leaf) = (mapping.addresses(), program.host.leaf);
        let starts =
            (leaf.align_down(addresses.start)..addresses.end).step_by(leaf.bytes() as usize);
        // The number of the window in the file decides, so that the same window is always on the same node.
        let first = text.start / leaf.bytes();
        let nodes = wanted
            .iter()
            .cycle()
            .skip(first as usize % wanted.len().max(1));
        let window = |start: u64| Span::new(start, start + leaf.bytes()).intersect(&addresses);
        Ok(Windows {
            program,
            each: starts.map(window).zip(nodes.copied()).collect(),
            _mapping: mapping,
        })
    }

    /// Moves what lies elsewhere; pages that others map too, if this user may. Returns what kept some.
    fn bring(&self) -> Result<Option<PlaceObstacle>, Error> {
        let mut obstacle = None;
        for (window, node) in &self.each {
            if self.misplaced_in(*window, *node)? == 0 {
                continue;
            }
            // A move that failed shows in where the pages are.
            let _ = move_to_node(*window, *node, Sharers::Caller);
            if self.misplaced_in(*window, *node)? == 0 {
                continue;
            }
            match move_to_node(*window, *node, Sharers::Anyone) {
                Err(_) => obstacle = Some(PlaceObstacle::MappedByOthers),
                Ok(moved) if moved.elsewhere > 0 => obstacle = Some(PlaceObstacle::NotMovable),
                Ok(_) => {}
            }
        }
        Ok(obstacle)
    }

    /// Bytes that do not lie where they are wanted.
    fn misplaced(&self) -> Result<u64, Error> {
        let each = self.each.iter();
        each.map(|(window, node)| self.misplaced_in(*window, *node))
            .sum()
    }

    fn misplaced_in(&self, window: Span, node: Node) -> Result<u64, Error> {
        let runs = runs(self.program, window)?.into_iter();
        Ok(runs
            .filter(|run| run.node != node)
            .map(|run| run.addresses.len())
            .sum())
    }
}
