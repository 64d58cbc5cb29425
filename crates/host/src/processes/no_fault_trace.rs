//! An architecture whose records are not known.

use std::io;

use super::id::Pid;

/// No records.
#[derive(Debug)]
pub enum FaultTrace {}

impl FaultTrace {
    /// Always an error.
    pub fn of(_pid: Pid) -> io::Result<FaultTrace> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing.
    pub fn addresses(self) -> Option<Vec<u64>> {
        match self {}
    }
}
