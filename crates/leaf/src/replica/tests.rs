//! Tests of locality and of the decision about replicas.

use proptest::prelude::*;

use super::*;

const M: u64 = 1 << 20;

const CALM: ReplicaFacts = ReplicaFacts {
    bytes: 40 * M,
    nodes: 2,
    remote_per_mille: 0,
    starts_per_second: 100,
    processors: 64,
};

const LIMITS: ReplicaLimits = ReplicaLimits {
    memory: 1 << 30,
    copies: 16,
    starts_per_copy: SETTLED_STARTS,
};

#[test]
fn text_is_local_as_far_as_its_node_runs_the_process() {
    let text: NodeBytes = [(Node(0), 6 * M), (Node(1), 2 * M)].into_iter().collect();
    let mut on_one = Runners::default();
    on_one.add(Node(1), 5);
    let found = Locality::of(&text, &on_one);
    assert_eq!((found.local, found.remote), (2 * M, 6 * M));
    assert_eq!(found.remote_per_mille(), 750);
    let mut on_both = on_one.clone();
    on_both.add(Node(0), 5);
    assert_eq!(Locality::of(&text, &on_both).local, 4 * M);
    assert_eq!(Locality::of(&text, &Runners::default()).remote, 0);
    assert_eq!(Locality::default().remote_per_mille(), 0);
}

#[test]
fn nodes_that_fetch_from_each_other_get_copies_of_their_own() {
    let far = ReplicaFacts {
        remote_per_mille: 400,
        ..CALM
    };
    let decided = decide_replicas(&far, &LIMITS);
    assert_eq!(
        decided,
        ReplicaDecision::PerNode {
            copies: 2,
            bytes: 80 * M
        }
    );
    assert_eq!(decide_replicas(&CALM, &LIMITS).copies(), 0, "all is near");
    let one_node = ReplicaFacts { nodes: 1, ..far };
    assert_eq!(decide_replicas(&one_node, &LIMITS).copies(), 0);
}

#[test]
fn starts_are_divided_only_where_they_meet() {
    let at = |starts_per_second| {
        let facts = ReplicaFacts {
            starts_per_second,
            ..CALM
        };
        decide_replicas(&facts, &LIMITS)
    };
    assert_eq!(at(SETTLED_STARTS).copies(), 0);
    let divided = at(3 * SETTLED_STARTS);
    assert!(matches!(
        divided,
        ReplicaDecision::PerGroup { copies: 3, .. }
    ));
    // Both reasons: as many on each node.
    let both = ReplicaFacts {
        remote_per_mille: 500,
        starts_per_second: 5 * SETTLED_STARTS,
        ..CALM
    };
    let both = decide_replicas(&both, &LIMITS);
    assert!(matches!(both, ReplicaDecision::PerNode { copies: 4, .. }));
}

#[test]
fn half_of_the_nodes_are_not_served() {
    let far = ReplicaFacts {
        remote_per_mille: 400,
        nodes: 4,
        ..CALM
    };
    let little = ReplicaLimits {
        memory: 3 * 40 * M,
        ..LIMITS
    };
    let why = NoReplica::NoRoom;
    assert_eq!(
        decide_replicas(&far, &little),
        ReplicaDecision::None { why }
    );
}

fn facts() -> impl Strategy<Value = ReplicaFacts> {
    (
        0u64..1 << 40,
        0u32..16,
        0u32..=1000,
        0u64..1 << 24,
        0u32..1024,
    )
        .prop_map(
            |(bytes, nodes, remote_per_mille, starts_per_second, processors)| ReplicaFacts {
                bytes,
                nodes,
                remote_per_mille,
                starts_per_second,
                processors,
            },
        )
}

fn limits() -> impl Strategy<Value = ReplicaLimits> {
    (0u64..1 << 42, 0u32..64, 0u64..1 << 20).prop_map(|(memory, copies, starts_per_copy)| {
        ReplicaLimits {
            memory,
            copies,
            starts_per_copy,
        }
    })
}

proptest! {
    /// Memory and number are never exceeded, and one copy alone is never made.
    #[test]
    fn limits_hold(facts in facts(), limits in limits()) {
        let decided = decide_replicas(&facts, &limits);
        prop_assert!(decided.copies() != 1);
        prop_assert!(decided.copies() <= limits.copies);
        prop_assert!(decided.bytes() <= limits.memory);
        prop_assert_eq!(decided.bytes(), facts.bytes * u64::from(decided.copies()));
        if let ReplicaDecision::PerNode { copies, .. } = decided {
            prop_assert_eq!(copies % facts.nodes, 0);
        }
    }

    /// More starts, more memory or more remote fetches never lead to fewer copies for the same reason.
    #[test]
    fn more_need_or_room_never_means_fewer(facts in facts(), limits in limits(), more in 0u64..1 << 20) {
        let before = decide_replicas(&facts, &limits);
        let busier = ReplicaFacts { starts_per_second: facts.starts_per_second + more, ..facts };
        prop_assert!(decide_replicas(&busier, &limits).copies() >= before.copies());
        let farther = ReplicaFacts { remote_per_mille: 1000, ..facts };
        if matches!(before, ReplicaDecision::PerNode { .. }) {
            prop_assert_eq!(decide_replicas(&farther, &limits), before);
        }
        if before.copies() == 0 {
            let roomier = ReplicaLimits { memory: limits.memory.saturating_mul(2), ..limits };
            let nothing = ReplicaDecision::None { why: NoReplica::NothingToGain };
            prop_assert_eq!(before == nothing, decide_replicas(&facts, &roomier) == nothing);
        }
    }

    /// Every byte is local or remote.
    #[test]
    fn bytes_are_local_or_remote(text in proptest::collection::vec((0u32..4, 0u64..1 << 50), 0..6),
                                 threads in proptest::collection::vec((0u32..4, 0u64..1 << 50), 0..6)) {
        let text: NodeBytes = text.into_iter().map(|(node, bytes)| (Node(node), bytes)).collect();
        let mut runners = Runners::default();
        for (node, weight) in threads {
            runners.add(Node(node), weight);
        }
        let found = Locality::of(&text, &runners);
        prop_assert_eq!(found.local + found.remote, text.total());
        prop_assert!(found.remote_per_mille() <= 1000);
    }
}
