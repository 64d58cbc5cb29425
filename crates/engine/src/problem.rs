//! An error as a line that can be stored, sent to another process and printed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, plain};
use crate::remedy::Remedy;

/// An error in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What it concerns, and the problem.
    pub line: String,
    /// What would help.
    pub remedy: Option<Remedy>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        Problem {
            line: plain(error),
            remedy: error.remedy(),
        }
    }
}

impl Problem {
    /// A problem without a known remedy.
    pub(crate) fn line(line: String) -> Problem {
        Problem { line, remedy: None }
    }
}
