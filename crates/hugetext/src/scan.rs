//! Finding the files a command is to look at.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::failure::Failure;

/// A file to look at, or why a path could not be followed.
pub(crate) enum Found {
    /// Named by the user: not being a program is an error.
    Named(PathBuf),
    /// Met in a directory: not being a program is no matter.
    Met(PathBuf),
    /// A path that could not be followed.
    Lost(Failure),
}

/// The files of `paths`; with `recursive`, directories are searched, each inode once. Symbolic
/// links inside directories are not followed.
pub(crate) fn files(paths: &[PathBuf], recursive: bool) -> impl Iterator<Item = Found> + Send {
    let mut seen = HashSet::new();
    paths
        .iter()
        .flat_map(move |path| walk(path, recursive))
        .filter(move |found| match found {
            Found::Met(path) => path
                .symlink_metadata()
                .is_ok_and(|metadata| seen.insert((metadata.dev(), metadata.ino()))),
            Found::Named(_) | Found::Lost(_) => true,
        })
}

fn walk(path: &Path, recursive: bool) -> Box<dyn Iterator<Item = Found> + Send> {
    if !recursive || !path.is_dir() {
        return Box::new(std::iter::once(Found::Named(path.to_owned())));
    }
    let entries = WalkDir::new(path).into_iter();
    Box::new(entries.filter_map(|entry| match entry {
        Ok(entry) if entry.file_type().is_file() => Some(Found::Met(entry.into_path())),
        Ok(_) => None,
        Err(error) => {
            let path = error.path().unwrap_or(Path::new("?")).to_owned();
            Some(Found::Lost(match error.io_error() {
                Some(error) => Failure::io(&path, error),
                None => Failure::at(&path, error),
            }))
        }
    }))
}
