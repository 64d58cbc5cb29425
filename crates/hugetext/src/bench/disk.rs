//! Checks the free space for the files of a benchmark before it writes the first byte.

use std::fs::File;
use std::path::{Path, PathBuf};

use hugetext_host::free_bytes;

use crate::failure::Failure;
use crate::table::bytes;

/// The directory that the user named, or the directory for temporary files.
pub(super) fn directory(named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(std::env::temp_dir)
}

/// An error if the filesystem of `directory` has less than `needed` bytes free.
pub(super) fn has_room(directory: &Path, needed: u64) -> Result<(), Failure> {
    let free = File::open(directory).and_then(|file| free_bytes(&file));
    let free = free.map_err(|error| Failure::io(directory, &error))?;
    if free >= needed {
        return Ok(());
    }
    let problem = format!(
        "{} free is not enough for files of {}",
        bytes(free),
        bytes(needed)
    );
    Err(Failure::at(directory, problem).remedy("measure less, or name another --directory"))
}
