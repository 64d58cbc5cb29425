//! What huge pages for text are worth on this machine.
//!
//! Each benchmark brings its sides into their states, verifies the states, and measures every side
//! in every round. The result of each is a [`Comparison`]. A benchmark is told what
//! to do by its settings, stops when an [`Interrupt`] says so, and tells an [`Observer`] how far it
//! is. It prints nothing.

mod all;
mod calls;
mod comparison;
mod disk;
mod error;
mod exec;
mod interrupt;
mod live;
mod mprotect;
mod numa;
mod observer;
pub mod quantity;
mod rmap;
mod rounds;
mod stats;
mod stub_files;
mod syscalls;
mod text_cache;
pub mod tlb;
mod work;

pub use all::bench_all;
pub use calls::{CallKind, CallSettings, bench_calls};
pub use comparison::{BenchmarkFile, Comparison, Measure, Side, Unit, Value};
pub use error::{BenchError, BenchStop};
pub use exec::{ExecSettings, Rival, RivalChange, RivalError, bench_exec};
pub use interrupt::Interrupt;
pub use live::{Leave, LiveSettings, Source, bench_live};
pub use mprotect::{MprotectSettings, bench_mprotect};
pub use numa::{NumaSettings, bench_numa};
pub use observer::Observer;
pub use rmap::{RmapSettings, bench_rmap};
pub use rounds::Rounds;
pub use stats::{CONFIDENCE, Estimate, Interval, LEAST_ROUNDS};
pub use syscalls::{SyscallSettings, bench_syscalls};
pub use work::{WORKLOADS, WorkSettings, Workload, bench_work};
