//! Who follows a benchmark.

use std::fmt;

use crate::error::BenchError;

/// Is told how far a benchmark is, and what it leaves out.
pub trait Observer {
    /// Work of `steps` steps begins; 0 if the number is unknown.
    fn begin(&self, what: &'static str, steps: u64);
    /// One step is done.
    fn step(&self);
    /// What is done just now; empty if nothing special.
    fn say(&self, what: &'static str);
    /// The work has ended.
    fn end(&self);
    /// Something to know before the result.
    fn tell(&self, text: &dyn fmt::Display);
    /// Something is left out.
    fn warn(&self, text: &dyn fmt::Display);
    /// A benchmark is left out, because its answer is no.
    fn left_out(&self, why: &BenchError);
}
