//! How exec throughput grows with the number of cores, when every exec goes to the `i_mmap` locks
//! of the same few files.
//!
//! A closed queueing network: each core repeats one process start (fork, exec, exit), which is work
//! of its own, in pieces, between trips to the locks of the files it maps. A lock serves one core at
//! a time, in order of arrival. [`simulate`] runs it event by event; the same workload and seed give
//! the same result.
//!
//! What it leaves out: walkers, the rest of the kernel's shared state, sleeping instead of spinning,
//! and distance between cores beyond one transfer time. It says where a lock's ceiling is and how
//! far sharding moves it, not how fast a given machine is.

mod simulate;
mod workload;

pub use simulate::{Outcome, simulate};
pub use workload::{File, Scheme, Workload};
