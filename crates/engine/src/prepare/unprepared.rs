//! What stays unprepared, and why. It is serializable, because a child process finds most of it.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::decide::LeaveReason;
use crate::error::Error;
use crate::problem::Problem;

/// The files that run unprepared although their text could be on huge pages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Unprepared {
    /// Files left because of an error.
    pub problems: Vec<Problem>,
    /// Files left by decision.
    pub left: Vec<LeftFile>,
    /// A script that does not show which large program it starts, so that nothing is known of it.
    pub opaque_script: Option<OsString>,
    /// Whether the command is in a user namespace.
    pub in_user_namespace: bool,
}

/// A file that was left by decision.
#[derive(Debug, Serialize, Deserialize)]
pub struct LeftFile {
    /// Its path as text; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The reason.
    pub why: LeftReason,
}

/// Why a file stays unprepared, or only a part of it is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftReason {
    /// It was decided before anything was tried.
    Decided(LeaveReason),
    /// Other processes use its small folios.
    NotFullyWarm,
    /// Other processes use small folios of its copy.
    CopyNotFullyWarm,
    /// Executing it changes user, group or capabilities.
    ChangesUser,
    /// The control group has too little memory for more than the command.
    TooLittleMemory,
}

impl Unprepared {
    /// Adds an error.
    pub fn fail(&mut self, error: &Error) {
        self.problems.push(error.into());
    }

    /// Adds a file that was left by decision.
    pub(super) fn leave(&mut self, path: &Path, why: LeftReason) {
        let path = path.to_string_lossy().into_owned();
        self.left.push(LeftFile { path, why });
    }

    /// Whether nothing was found that runs unprepared.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty() && self.left.is_empty() && self.opaque_script.is_none()
    }

    /// Adds what another process found.
    pub fn add(&mut self, mut other: Unprepared) {
        self.problems.append(&mut other.problems);
        self.left.append(&mut other.left);
        self.opaque_script = self.opaque_script.take().or(other.opaque_script);
        self.in_user_namespace |= other.in_user_namespace;
    }
}
