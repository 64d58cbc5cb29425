//! Which of the copies a command gets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decide::ReplicaDecision;
use super::node::{Node, Replica};

/// The copies that a command is to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaChoice {
    /// The one of the node that runs it.
    OwnNode,
    /// One of this many, 1 at least, drawn anew for each command.
    OneOf(u32),
}

impl ReplicaChoice {
    /// What was decided about the files of a command, as one choice for all of them; `None` if no copy is worth
    /// it. A copy on each node also divides the lock, so nodes come first.
    pub fn of(decisions: impl IntoIterator<Item = ReplicaDecision>) -> Option<ReplicaChoice> {
        let mut most = 0;
        for decision in decisions {
            match decision {
                ReplicaDecision::PerNode { .. } => return Some(ReplicaChoice::OwnNode),
                ReplicaDecision::PerGroup { copies, .. } => most = most.max(copies),
                ReplicaDecision::None { .. } => {}
            }
        }
        (most > 1).then_some(ReplicaChoice::OneOf(most))
    }
}

/// What a command gets, and the warning for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenReplica {
    /// The copy; `None` for the files themselves.
    pub replica: Option<Replica>,
    /// All copies that commands with the same choice use, together.
    pub copies: u32,
    /// What its user would not expect.
    pub note: Option<ReplicaNote>,
}

/// What the user of a command would not expect of the choice.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaNote {
    /// The machine has memory on one node only, so all text is near.
    OneNode,
    /// The command may run on several nodes.
    Spans {
        /// All of them, in the order of their processors.
        nodes: Vec<Node>,
        /// The one that it gets.
        chosen: Node,
    },
    /// The node that runs it has no memory.
    NoMemory {
        /// That node.
        node: Node,
    },
}

/// Chooses a copy. `runs_on` are the nodes of the processors that the command may use, in the order of these
/// processors; `with_memory` the nodes that can hold text. `draw` is a random number.
pub fn choose_replica(
    choice: ReplicaChoice,
    runs_on: &[Node],
    with_memory: &[Node],
    draw: u32,
) -> ChosenReplica {
    let copies_of_nodes = u32::try_from(with_memory.len()).unwrap_or(u32::MAX);
    let none = |note| ChosenReplica {
        replica: None,
        copies: 0,
        note: Some(note),
    };
    match choice {
        ReplicaChoice::OneOf(copies) => ChosenReplica {
            replica: Some(Replica::Numbered(draw % copies.max(1))),
            copies: copies.max(1),
            note: None,
        },
        ReplicaChoice::OwnNode if copies_of_nodes < 2 => none(ReplicaNote::OneNode),
        ReplicaChoice::OwnNode => match runs_on {
            [] => none(ReplicaNote::OneNode),
            [first, ..] if !with_memory.contains(first) => {
                none(ReplicaNote::NoMemory { node: *first })
            }
            [first, rest @ ..] => ChosenReplica {
                replica: Some(Replica::OnNode(*first)),
                copies: copies_of_nodes,
                note: (!rest.is_empty()).then(|| ReplicaNote::Spans {
                    nodes: runs_on.to_vec(),
                    chosen: *first,
                }),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Node; 2] = [Node(0), Node(1)];

    #[test]
    fn a_bound_command_gets_its_node_and_one_that_spans_is_told() {
        let own = |runs_on: &[Node]| choose_replica(ReplicaChoice::OwnNode, runs_on, &BOTH, 7);
        let bound = own(&[Node(1)]);
        assert_eq!(bound.replica, Some(Replica::OnNode(Node(1))));
        assert_eq!((bound.copies, bound.note), (2, None));
        let spans = own(&[Node(1), Node(0)]);
        assert_eq!(spans.replica, Some(Replica::OnNode(Node(1))));
        assert!(matches!(
            spans.note,
            Some(ReplicaNote::Spans {
                chosen: Node(1),
                ..
            })
        ));
        let bare = own(&[Node(2)]);
        assert_eq!((bare.replica, bare.copies), (None, 0));
        let one = choose_replica(ReplicaChoice::OwnNode, &[Node(0)], &[Node(0)], 7);
        assert_eq!(one.note, Some(ReplicaNote::OneNode));
    }

    #[test]
    fn the_files_of_a_command_have_one_choice() {
        use super::super::NoReplica;
        let none = ReplicaDecision::None {
            why: NoReplica::NothingToGain,
        };
        let of = |copies| ReplicaDecision::PerGroup { copies, bytes: 1 };
        let near = ReplicaDecision::PerNode {
            copies: 2,
            bytes: 1,
        };
        assert_eq!(ReplicaChoice::of([]), None);
        assert_eq!(ReplicaChoice::of([none, none]), None);
        assert_eq!(
            ReplicaChoice::of([of(2), none, of(4)]),
            Some(ReplicaChoice::OneOf(4))
        );
        assert_eq!(
            ReplicaChoice::of([of(4), near]),
            Some(ReplicaChoice::OwnNode)
        );
    }

    #[test]
    fn draws_are_spread_over_all_copies() {
        let mut seen = [0; 4];
        for draw in 0..400 {
            let chosen = choose_replica(ReplicaChoice::OneOf(4), &BOTH, &BOTH, draw);
            match chosen.replica {
                Some(Replica::Numbered(number)) => seen[number as usize] += 1,
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(seen, [100; 4]);
        let none = choose_replica(ReplicaChoice::OneOf(0), &[], &[], 5);
        assert_eq!(none.replica, Some(Replica::Numbered(0)));
    }
}
