//! Text that is mapped and locked, so that reclaim leaves its page cache alone.

use std::io;

use hugetext_host::FileMapping;
use hugetext_leaf::{Leaf, Span};

use crate::error::Error;
use crate::on_host::ProgramOnHost;

/// Windows of a program, mapped in this process until the value is dropped. The kernel frees the
/// pages of a mapped file last, and those of a locked one not at all (mlock(2)); RLIMIT_MEMLOCK
/// limits the locked bytes of a process without CAP_IPC_LOCK.
#[derive(Debug)]
pub struct HeldText {
    mappings: Vec<FileMapping>,
}

impl HeldText {
    /// Maps `windows`, which [`ProgramOnHost::windows_of`] gave for `leaf`. Nothing is locked yet.
    pub fn map(
        program: &ProgramOnHost<'_>,
        windows: &[Span],
        leaf: Leaf,
    ) -> Result<HeldText, Error> {
        let map = |range: &Span| program.file_windows(*range, leaf).map();
        let mappings: io::Result<Vec<_>> = windows.iter().map(map).collect();
        Ok(HeldText {
            mappings: mappings.map_err(Error::io(&program.program.path))?,
        })
    }

    /// Maps and locks `windows` of `leaf`. Missing pages are read.
    pub fn lock(
        program: &ProgramOnHost<'_>,
        windows: &[Span],
        leaf: Leaf,
    ) -> Result<HeldText, Error> {
        let held = HeldText::map(program, windows, leaf)?;
        held.lock_mapped().map_err(|source| Error::Lock {
            path: program.program.path.clone(),
            source,
        })?;
        Ok(held)
    }

    /// Locks what is mapped.
    pub fn lock_mapped(&self) -> io::Result<()> {
        self.mappings.iter().try_for_each(FileMapping::lock)
    }

    /// The ranges of the file that are mapped.
    pub fn ranges(&self) -> impl Iterator<Item = Span> {
        self.mappings.iter().map(FileMapping::range)
    }

    /// Bytes of text that are mapped.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|range| range.len()).sum()
    }
}
