//! What a watched process does, and what its watcher wants to know of it.

use std::path::PathBuf;

use crate::processes::Pid;

/// An action of a watched process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// It has executed a program.
    Exec {
        /// The process.
        pid: Pid,
        /// The program.
        program: PathBuf,
    },
    /// It has run for a while, or begins to exit; its mappings still exist.
    Look {
        /// The process.
        pid: Pid,
    },
}

/// The caller's interest in a process that executes a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Only the program that it executes.
    Nothing,
    /// Also its mappings, at a [`Moment::Look`].
    Mappings,
    /// It must not be traced, because it traces processes itself, and a process has one tracer at
    /// most.
    Own,
}
