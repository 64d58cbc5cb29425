//! Checks the free space for the files of a benchmark before it writes the first byte.

use std::fs::File;
use std::path::{Path, PathBuf};

use hugetext_host::free_bytes;

use crate::error::BenchError;
use crate::quantity::bytes;

/// The directory that the user named, or the directory for temporary files.
pub fn directory(named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(std::env::temp_dir)
}

/// An error if the filesystem of `directory` has less than `needed` bytes free.
pub fn has_room(directory: &Path, needed: u64) -> Result<(), BenchError> {
    let free = File::open(directory).and_then(|file| free_bytes(&file));
    let free = free.map_err(|error| BenchError::io(directory, &error))?;
    if free >= needed {
        return Ok(());
    }
    let problem = format!(
        "{} free is not enough for files of {}",
        bytes(free),
        bytes(needed)
    );
    Err(BenchError::at(directory, problem).remedy("measure less, or name another --directory"))
}
