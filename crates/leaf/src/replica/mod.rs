//! Text near the processors that run it: on which NUMA node it lies, and when a replica is worth it.
//!
//! 1. [`NodeBytes`] says how many bytes lie on each node, and [`Runners`] which nodes run a process.
//! 2. [`Locality`] joins them: how much of the text is near to the processors that execute it.
//! 3. [`decide_replicas`] says whether copies of a file would help, and how many.
//! 4. [`Replica`] names one of the copies, and [`choose_replica`] says which a command gets.

mod choose;
mod decide;
mod node;

#[cfg(test)]
mod tests;

pub use choose::{ChosenReplica, ReplicaChoice, ReplicaNote, choose_replica};
pub use decide::{
    NoReplica, ReplicaDecision, ReplicaFacts, ReplicaLimits, SETTLED_STARTS, decide_replicas,
};
pub use node::{Locality, Node, NodeBytes, Replica, Runners};
