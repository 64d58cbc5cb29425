//! Where a fixed file goes, and what of the old file's identity goes with it.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hugetext_host::{Guard, ReplaceError, Replacement};

use super::Arguments;
use crate::failure::{Failure, plain};
use crate::program::Program;
use crate::table::count;

/// Where the new file goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Nothing is written.
    Nowhere,
    /// Another path.
    Other(PathBuf),
    /// The place of the old file.
    Same {
        /// The suffix under which the old file is kept.
        backup: Option<String>,
        /// Other names of the old file.
        links: u64,
    },
}

impl Destination {
    /// What the arguments ask for; an error where the file cannot be replaced or copied so.
    pub(super) fn of(program: &Program, arguments: &Arguments) -> Result<Destination, Failure> {
        if arguments.target.dry_run {
            return Ok(Destination::Nowhere);
        }
        let in_place = arguments.target.in_place;
        let guards = Guard::of(&program.file).map_err(|e| Failure::io(&program.path, &e))?;
        for guard in guards {
            let (problem, remedy) = match guard {
                Guard::Verity => ("is protected by fs-verity", "fix it before it is sealed"),
                Guard::Signed => ("has an IMA or EVM signature", "fix it before it is signed"),
                Guard::Immutable if in_place => ("is immutable", "use -o, or chattr -i first"),
                Guard::AppendOnly if in_place => ("is append-only", "use -o, or chattr -a first"),
                Guard::Privileged if in_place && !arguments.privileged => (
                    "has set-id bits or capabilities",
                    "say --privileged to replace it",
                ),
                _ => continue,
            };
            return Err(Failure::at(&program.path, problem).remedy(remedy));
        }
        match &arguments.target.output {
            Some(path) => Destination::other(program, path),
            None => Ok(Destination::Same {
                backup: arguments.backup.clone(),
                links: metadata(program)?.nlink().saturating_sub(1),
            }),
        }
    }

    fn other(program: &Program, path: &Path) -> Result<Destination, Failure> {
        let existing = match fs::metadata(path) {
            Ok(existing) => existing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Destination::Other(path.to_owned()));
            }
            Err(error) => return Err(Failure::io(path, &error)),
        };
        let input = metadata(program)?;
        if (existing.dev(), existing.ino()) == (input.dev(), input.ino()) {
            return Err(Failure::at(path, "is the input").remedy("say --in-place"));
        }
        if !existing.is_file() {
            return Err(Failure::at(path, "is there and is no regular file"));
        }
        let path = fs::canonicalize(path).map_err(|error| Failure::io(path, &error))?;
        Ok(Destination::Other(path))
    }

    /// What the user should know before.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Destination::Same { links, .. } if *links > 0 => vec![format!(
                "the old content stays under {}",
                count(*links, "other hard link")
            )],
            _ => Vec::new(),
        }
    }

    /// Whether a file is to be written, where the old one may be right already.
    pub(super) fn is_written(&self, done_already: bool) -> bool {
        match self {
            Destination::Nowhere => false,
            Destination::Other(_) => true,
            Destination::Same { .. } => !done_already,
        }
    }

    /// The path of the new file. That of a symbolic link's target, so that the link stays.
    pub(super) fn path(&self, program: &Program) -> Result<PathBuf, Failure> {
        match self {
            Destination::Other(path) => Ok(path.clone()),
            _ => {
                fs::canonicalize(&program.path).map_err(|error| Failure::io(&program.path, &error))
            }
        }
    }

    /// Gives the verified file the old one's identity and its place.
    pub(super) fn put_into_place(
        &self,
        program: &Program,
        replacement: Replacement,
        path: &Path,
    ) -> Result<(), Failure> {
        let error = |error: ReplaceError| failure(path, error);
        let carried = match self {
            Destination::Same { .. } => replacement.copy_metadata(&program.file),
            // A copy that a user makes of somebody else's program is the user's own.
            _ => replacement
                .copy_metadata(&program.file)
                .or_else(|_| copy_as_own(&program.file, replacement.file())),
        };
        carried.map_err(error)?;
        unchanged(program)?;
        let backup = match self {
            Destination::Same {
                backup: Some(suffix),
                ..
            } => Some(keep(path, suffix)?),
            _ => None,
        };
        let placed = replacement.commit().map(drop).map_err(error);
        if let (Err(_), Some(backup)) = (&placed, backup) {
            // The old file is still in its place, so the second name for it is of no use.
            let _ = fs::remove_file(backup);
        }
        placed
    }
}

/// A file that is to become `path`.
pub(super) fn create(path: &Path) -> Result<Replacement, Failure> {
    Replacement::new(path).map_err(|error| failure(path, error))
}

/// The mode without set-id bits, and the times.
fn copy_as_own(old: &File, new: &File) -> Result<(), ReplaceError> {
    let failed = |source| ReplaceError::Metadata {
        what: "mode and times".to_owned(),
        source,
    };
    let metadata = old.metadata().map_err(failed)?;
    let mode = metadata.mode() & 0o777;
    new.set_permissions(Permissions::from_mode(mode))
        .map_err(failed)?;
    let modified = metadata.modified().map_err(failed)?;
    new.set_times(FileTimes::new().set_modified(modified))
        .map_err(failed)
}

/// Gives the old file a second name.
fn keep(path: &Path, suffix: &str) -> Result<PathBuf, Failure> {
    let mut name = OsString::from(path);
    name.push(suffix);
    let backup = PathBuf::from(name);
    fs::hard_link(path, &backup).map_err(|error| {
        let failure = Failure::at(&backup, format_args!("no backup: {}", plain(&error)));
        match error.kind() {
            io::ErrorKind::AlreadyExists => failure.remedy("name another with --backup=SUFFIX"),
            _ => failure,
        }
    })?;
    Ok(backup)
}

/// The plan holds for the file as it was when it was read.
fn unchanged(program: &Program) -> Result<(), Failure> {
    let there = fs::metadata(&program.path).map_err(|e| Failure::io(&program.path, &e))?;
    let identity = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
    if identity(&there) != identity(&metadata(program)?) || there.len() != program.image.file_len {
        return Err(Failure::at(&program.path, "changed while it was read").remedy("try again"));
    }
    Ok(())
}

fn metadata(program: &Program) -> Result<Metadata, Failure> {
    let metadata = program.file.metadata();
    metadata.map_err(|error| Failure::io(&program.path, &error))
}

fn failure(path: &Path, error: ReplaceError) -> Failure {
    let source = match &error {
        ReplaceError::Create { source, .. } | ReplaceError::Metadata { source, .. } => source,
        ReplaceError::Rename(source) => source,
    };
    let kind = source.kind();
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let failure = Failure::at(path, text);
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            failure.remedy("write elsewhere with -o")
        }
        io::ErrorKind::StorageFull => failure.remedy("free some space and try again"),
        _ => failure,
    }
}
