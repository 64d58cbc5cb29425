//! The document of benchmarks.

use hugetext_bench::Comparison;
use hugetext_engine::MachineVerdict;
use hugetext_host::Machine;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use crate::meaning::{self, Meaning, verdict_of};
use crate::output::command_line;

/// The result of benchmarks that compare sides.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BenchReport {
    /// The machine.
    pub machine: Machine,
    /// What huge text gives on it, as `hugetext host` says.
    pub host: Option<MachineVerdict>,
    /// The day, UTC.
    pub date: String,
    /// The machine, in one line.
    pub summary: String,
    /// The command line that was run.
    pub invocation: String,
    /// The comparisons.
    pub benchmarks: Vec<Comparison>,
    /// What they mean, and the next command; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<Meaning>,
}

/// The day, UTC: `2026-01-31`.
pub fn today() -> String {
    OffsetDateTime::now_utc().date().to_string()
}

impl BenchReport {
    /// Of this machine. `command` is what a user types for this program.
    pub fn of(benchmarks: Vec<Comparison>, command: &str) -> BenchReport {
        let machine = Machine::this();
        let host = MachineVerdict::once();
        let invocation = command_line(command);
        let verdict = verdict_of(host.as_ref());
        BenchReport {
            date: today(),
            summary: machine.to_string(),
            meaning: meaning::benches(&benchmarks, &invocation, verdict),
            invocation,
            machine,
            host,
            benchmarks,
        }
    }
}
