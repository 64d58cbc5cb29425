//! How exec throughput grows with the number of cores when every exec takes the `i_mmap` locks of
//! the same few files.
//!
//! The model is a closed queueing network. Each core repeats one process start (fork, exec, exit).
//! A start is work of the core's own, in pieces, between trips to the locks of the files that it
//! maps. A lock serves one core at a time, in order of arrival. [`simulate`] runs the model event
//! by event; the same workload and seed give the same result.
//!
//! The model leaves out walkers, the rest of the kernel's shared state, sleeping instead of
//! spinning, and distance between cores beyond one transfer time. It tells where a lock's ceiling
//! is and how far sharding moves it, not how fast a given machine is.

mod simulate;
mod workload;

pub use simulate::{StormOutcome, simulate};
pub use workload::{File, Scheme, Workload};
