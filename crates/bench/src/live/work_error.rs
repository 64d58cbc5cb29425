//! Why no count of work exists.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::BenchError;

/// Whoever is asked for a count has this time to answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// Why no count exists.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    /// The log cannot be read.
    #[error("{}: {source}", path.display())]
    Log { path: PathBuf, source: io::Error },
    /// The command cannot be started.
    #[error("sh: {0}")]
    Shell(io::Error),
    /// The command takes too long.
    #[error("'{command}' did not end within {} s", ANSWER.as_secs())]
    Slow { command: String },
    /// The measurement has to end.
    #[error("{0}")]
    Stopped(BenchError),
    /// The command failed.
    #[error("'{command}' ended with {status}")]
    Failed { command: String, status: String },
    /// No number was printed.
    #[error("'{command}' printed no number")]
    NoNumber { command: String },
    /// The endpoint did not answer.
    #[error("{url}: {problem}")]
    Endpoint { url: String, problem: String },
    /// The endpoint does not have the counter.
    #[error("{url}: has no counter named {name}")]
    NoMetric { url: String, name: String },
    /// The processor's counters cannot be used.
    #[error("no instructions are counted: {0}")]
    NoInstructions(String),
    /// A count fell.
    #[error("the count of work went back from {from} to {to}: did the service restart?")]
    WentBack { from: f64, to: f64 },
    /// A count did not change.
    #[error("the count of work stayed at {at} for 20 periods: is the service under load?")]
    Stalled { at: f64 },
}

impl From<WorkError> for BenchError {
    fn from(error: WorkError) -> BenchError {
        let remedy = match &error {
            WorkError::Stopped(stop) => return stop.clone(),
            WorkError::NoInstructions(_) => {
                Some("count the work by --count, --log or --metrics; guests often have no counters")
            }
            _ => None,
        };
        let failure = BenchError::new("work", error);
        match remedy {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}
