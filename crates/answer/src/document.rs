//! The document of benchmarks.

use hugetext_bench::Comparison;
use hugetext_host::Machine;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::command_line;

/// The result of benchmarks that compare sides.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BenchReport {
    /// The machine.
    pub machine: Machine,
    /// The machine, in one line.
    pub summary: String,
    /// The command line that was run.
    pub invocation: String,
    /// The comparisons.
    pub benchmarks: Vec<Comparison>,
}

impl BenchReport {
    /// Of this machine. `command` is what a user types for this program.
    pub fn of(benchmarks: Vec<Comparison>, command: &str) -> BenchReport {
        let machine = Machine::this();
        BenchReport {
            summary: machine.to_string(),
            invocation: command_line(command),
            machine,
            benchmarks,
        }
    }
}
