//! Why a benchmark gives no result.

use std::fmt;
use std::io;
use std::path::Path;

use hugetext_engine::{Error, Problem, io_remedy, plain, shown};

/// An error of a benchmark, in one line that names the subject and the problem.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", problem.line)]
pub struct BenchError {
    /// The problem, with what would help in general.
    pub problem: Problem,
    /// What would help here.
    pub advice: Option<String>,
}

/// Why no result exists.
#[derive(Debug)]
pub enum BenchStop {
    /// The machine does not allow the comparison: the answer is no.
    No(BenchError),
    /// An error.
    Error(BenchError),
}

impl BenchError {
    /// An error that names `subject` and `problem`, without the numbers of I/O errors.
    pub fn new(subject: impl fmt::Display, problem: impl fmt::Display) -> BenchError {
        BenchError {
            problem: Problem {
                line: format!("{subject}: {}", plain(problem)),
                remedy: None,
            },
            advice: None,
        }
    }

    /// An error about a file.
    pub fn at(path: &Path, problem: impl fmt::Display) -> BenchError {
        BenchError::new(shown(path), problem)
    }

    /// An I/O error about a file.
    pub fn io(path: &Path, error: &io::Error) -> BenchError {
        let mut failure = BenchError::at(path, error);
        failure.problem.remedy = io_remedy(error);
        failure
    }

    /// Adds what would help.
    pub fn remedy(self, advice: impl fmt::Display) -> BenchError {
        BenchError {
            advice: Some(advice.to_string()),
            ..self
        }
    }
}

impl From<Error> for BenchError {
    fn from(error: Error) -> BenchError {
        BenchError {
            problem: (&error).into(),
            advice: None,
        }
    }
}

impl From<BenchError> for BenchStop {
    fn from(error: BenchError) -> BenchStop {
        BenchStop::Error(error)
    }
}

impl From<Error> for BenchStop {
    fn from(error: Error) -> BenchStop {
        BenchStop::Error(error.into())
    }
}
