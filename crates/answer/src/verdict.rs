//! How a command ended, and the exit status that says so.

use std::process::ExitCode;

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The requested work is done.
    Done,
    /// The answer is no.
    No,
    /// The exit status of the program that was executed.
    Status(u8),
    /// The work is done as far as possible; the errors have been printed.
    Failed,
}

impl Verdict {
    /// [`Verdict::No`] if the answer is no.
    pub fn no_if(no: bool) -> Verdict {
        if no { Verdict::No } else { Verdict::Done }
    }

    /// [`Verdict::Failed`] if an error was printed.
    pub fn failed_if(failed: bool) -> Verdict {
        if failed {
            Verdict::Failed
        } else {
            Verdict::Done
        }
    }

    /// The worse of the two verdicts.
    pub fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Failed, _) | (_, Verdict::Failed) => Verdict::Failed,
            (Verdict::No, _) | (_, Verdict::No) => Verdict::No,
            _ => Verdict::Done,
        }
    }

    /// The exit status. It depends on the verdict alone: whether anyone read the output does not
    /// matter.
    pub fn status(self) -> u8 {
        match self {
            Verdict::Done => 0,
            Verdict::No => 1,
            Verdict::Failed => 2,
            Verdict::Status(status) => status,
        }
    }

    /// The same for `main`.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(self.status())
    }
}
