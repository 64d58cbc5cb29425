//! An architecture on which nothing is counted.

use super::counted::Counted;

/// No counters.
pub(crate) enum Counters {}

impl Counters {
    /// Always an error.
    pub(crate) fn open() -> Result<Counters, Counted> {
        Err(Counted::Missing {
            reason: "hugetext counts no events on this architecture".to_owned(),
        })
    }

    /// Nothing.
    pub(crate) fn read(self) -> Counted {
        match self {}
    }
}
