//! Finds the files that a command looks at.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::command::unknown;
use crate::failure::Failure;

/// A file to look at, or the reason that a path could not be followed.
pub(crate) enum Found {
    /// Named by the user. The command reports an error if it is not a program.
    Named(PathBuf),
    /// A regular file found in a directory. The command skips it if it is not a program.
    Met(PathBuf),
    /// A path that could not be followed.
    Lost(Failure),
}

/// Number of files looked at at once. A scan waits for the disk, one first page a file, so more
/// threads than processors keep the disk's queue filled.
const IN_FLIGHT: usize = 8;

/// Calls `visit` for each file of `paths`. With `recursive`, directories are searched. A few files are
/// visited in order; more are visited from several threads and in no order. Symbolic links inside
/// directories are not followed.
pub(crate) fn files(paths: &[PathBuf], recursive: bool, visit: impl Fn(Found) + Sync) {
    let Some((first, rest)) = paths.split_first() else {
        return;
    };
    let mut walk = WalkBuilder::new(first);
    rest.iter().for_each(|path| {
        walk.add(path);
    });
    // Hidden and ignored files may be programs too.
    walk.standard_filters(false)
        .threads(IN_FLIGHT)
        .max_depth((!recursive).then_some(0));
    // Starting the threads takes longer than looking at a few files, and they end by a pause.
    if paths.len() <= IN_FLIGHT && !(recursive && paths.iter().any(|path| path.is_dir())) {
        walk.build()
            .filter_map(|entry| found(entry, recursive))
            .for_each(visit);
        return;
    }
    walk.build_parallel().run(|| {
        Box::new(|entry| {
            if let Some(found) = found(entry, recursive) {
                visit(found);
            }
            WalkState::Continue
        })
    });
}

fn found(entry: Result<DirEntry, ignore::Error>, recursive: bool) -> Option<Found> {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return Some(Found::Lost(lost(&error))),
    };
    let kind = entry.file_type();
    if entry.depth() == 0 {
        let searched = recursive && entry.path().is_dir();
        return (!searched).then(|| Found::Named(entry.into_path()));
    }
    kind.is_some_and(|kind| kind.is_file())
        .then(|| Found::Met(entry.into_path()))
}

/// The error of the walk, with the path that it concerns.
fn lost(error: &ignore::Error) -> Failure {
    match error {
        ignore::Error::WithPath { path, err } => match err.io_error() {
            Some(io) if io.kind() == ErrorKind::NotFound => unknown(path),
            Some(io) => Failure::io(path, io),
            None => Failure::at(path, err),
        },
        ignore::Error::WithDepth { err, .. } => lost(err),
        ignore::Error::Loop { child, .. } => Failure::at(child, "a loop of symbolic links"),
        other => Failure::at(Path::new("."), other),
    }
}
