//! Everything in a directory.

use std::fs::FileType;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// The paths of one file type in `directory` and the directories below it, itself included.
/// Symbolic links inside are not followed, and what cannot be read is passed over.
pub(crate) fn entries(
    directory: &Path,
    wanted: fn(&FileType) -> bool,
) -> impl Iterator<Item = PathBuf> {
    // Hidden and ignored files may be programs too.
    let walk = WalkBuilder::new(directory).standard_filters(false).build();
    let entries = walk.filter_map(Result::ok);
    let entries = entries.filter(move |entry| entry.file_type().is_some_and(|kind| wanted(&kind)));
    entries.map(ignore::DirEntry::into_path)
}
