//! How a benchmark ended, told to the user.

use hugetext_bench::{BenchStop, Comparison, Interrupt};

use crate::comparison;
use crate::document::BenchReport;
use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

/// Prints what was compared, or why nothing was. `command` is what a user types for this program.
pub fn answer_bench(
    outcome: Result<Vec<Comparison>, BenchStop>,
    stop: &Interrupt,
    command: &str,
    output: &Output,
) -> Result<Verdict, Failure> {
    match outcome {
        Ok(benchmarks) => {
            let report = BenchReport::of(benchmarks, command);
            output.result("bench", &report, comparison::report)?;
            Ok(Verdict::Done)
        }
        Err(BenchStop::No(error)) => {
            output.error(&error.into());
            Ok(Verdict::No)
        }
        Err(BenchStop::Error(error)) => match stop.status() {
            Some(status) => {
                output.error(&error.into());
                Ok(Verdict::Status(status))
            }
            None => Err(error.into()),
        },
    }
}
