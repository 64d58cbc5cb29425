//! An architecture whose records are not known.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use super::sideband::Sideband;

/// No records.
#[derive(Debug)]
pub enum TextMaps {}

impl TextMaps {
    /// Always an error.
    pub fn new() -> io::Result<TextMaps> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing.
    pub fn wait(
        &mut self,
        _timeout: Duration,
        _also: impl AsFd,
        _seen: impl FnMut(Sideband),
    ) -> io::Result<()> {
        match *self {}
    }
}
