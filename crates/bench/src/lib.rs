//! What huge pages for text are worth on this machine.
//!
//! Each benchmark brings its sides into their states, verifies the states, and measures every side
//! in every round. The result of each is a [`Comparison`]. A benchmark is told what
//! to do by its settings, stops when an [`Interrupt`] says so, and tells an [`Observer`] how far it
//! is. It prints nothing. The laboratory's benchmarks are made of the same parts.

mod comparison;
mod counts;
mod disk;
mod error;
mod exec;
mod finding;
mod interrupt;
mod live;
mod observer;
pub mod quantity;
mod rounds;
mod stats;
mod text_cache;
mod work;

pub use comparison::{BenchmarkFile, Comparison, Measure, Measured, Side, Unit, Value};
pub use counts::MISSES_ARE_WALKS;
#[cfg(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub use counts::of_whole_time;
pub use disk::{directory, has_room};
pub use error::{BenchError, BenchStop};
pub use exec::names;
pub use exec::{EMPTY_COMPILE, ExecSettings, Rival, RivalChange, RivalError, bench_exec, compiler};
pub use finding::{Finding, Finer};
pub use interrupt::{Bounds, Interrupt};
pub use live::{Leave, LiveSettings, Naming, Source, bench_live};
pub use observer::Observer;
pub use rounds::{PerRound, Rounds};
pub use stats::{CONFIDENCE, Estimate, Interval, LEAST_ROUNDS};
pub use work::{WORKLOADS, WorkSettings, Workload, bench_work};
