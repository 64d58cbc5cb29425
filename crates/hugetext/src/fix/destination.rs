//! Where a fixed file goes, and which attributes of the old file it takes over.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hugetext_host::{Guard, ReplaceError, Replacement};

use super::Arguments;
use crate::failure::{Failure, plain};
use crate::program::Program;
use crate::table::count;
use crate::vouch::Voucher;

/// Where the new file goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Nothing is written.
    Nowhere,
    /// The new file is written to another path.
    Other {
        path: PathBuf,
        privileges: Privileges,
    },
    /// The new file replaces the old one.
    Same {
        /// The suffix under which the old file is kept.
        backup: Option<String>,
        /// Further hard links of the old file.
        links: u64,
    },
}

/// What happens to set-id bits and capabilities in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    /// The old file has none.
    None,
    /// The copy goes without them.
    LeftOut,
    /// The copy keeps them, as the user asked.
    Kept,
}

impl Destination {
    /// The destination that the arguments name; an error where the file cannot be replaced or
    /// copied.
    pub(super) fn of(program: &Program, arguments: &Arguments) -> Result<Destination, Failure> {
        if arguments.target.dry_run {
            return Ok(Destination::Nowhere);
        }
        let in_place = arguments.target.in_place;
        let guards = Guard::of(&program.file).map_err(|e| Failure::io(&program.path, &e))?;
        for guard in &guards {
            let remedy = match guard {
                Guard::Verity => "fix it before it is sealed",
                Guard::Signed => "fix it before it is signed",
                Guard::Immutable if in_place => "use -o, or chattr -i first",
                Guard::AppendOnly if in_place => "use -o, or chattr -a first",
                Guard::Privileged if in_place && !arguments.privileged => {
                    "use --privileged to replace it"
                }
                _ => continue,
            };
            return Err(Failure::at(&program.path, guard).remedy(remedy));
        }
        match &arguments.target.output {
            Some(path) => {
                let privileges = match guards.contains(&Guard::Privileged) {
                    false => Privileges::None,
                    true if arguments.privileged => Privileges::Kept,
                    true => Privileges::LeftOut,
                };
                Destination::other(program, path, privileges)
            }
            None => Ok(Destination::Same {
                backup: arguments.backup.clone(),
                links: program.metadata.nlink().saturating_sub(1),
            }),
        }
    }

    fn other(
        program: &Program,
        path: &Path,
        privileges: Privileges,
    ) -> Result<Destination, Failure> {
        let input = &program.metadata;
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (input.dev(), input.ino()) => {
                Err(Failure::at(path, "is the input").remedy("use --in-place"))
            }
            _ => Ok(Destination::Other {
                path: path.to_owned(),
                privileges,
            }),
        }
    }

    /// An error where something keeps a checksum of the file and compares it, unless the user
    /// permitted that; with permission, a note.
    pub(super) fn voucher(
        &self,
        program: &Program,
        arguments: &Arguments,
    ) -> Result<Option<String>, Failure> {
        let package = || match self {
            Destination::Other { .. } => None,
            _ => Voucher::of_package(&program.path),
        };
        let Some(voucher) = Voucher::at_use(program).or_else(package) else {
            return Ok(None);
        };
        if arguments.vouched || *self == Destination::Nowhere {
            return Ok(Some(format!("the file {voucher}")));
        }
        let remedy = match voucher {
            Voucher::Package { .. } => {
                "use --vouched to replace it anyway, or write elsewhere with -o"
            }
            _ => "use --vouched to fix it anyway, and renew the checksum",
        };
        Err(Failure::at(&program.path, voucher).remedy(remedy))
    }

    /// Notes for the user about the destination.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Destination::Same { links, .. } if *links > 0 => vec![format!(
                "the old content stays under {}",
                count(*links, "other hard link")
            )],
            Destination::Other {
                privileges: Privileges::LeftOut,
                ..
            } => vec![
                "the copy goes without its set-id bits or capabilities; --privileged keeps them"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }

    /// Whether a file is to be written, even if the old layout is right already.
    pub(super) fn is_written(&self, done_already: bool) -> bool {
        match self {
            Destination::Nowhere => false,
            Destination::Other { .. } => true,
            Destination::Same { .. } => !done_already,
        }
    }

    /// A new file for the destination. It is made next to a symbolic link's target, so that the
    /// link stays.
    pub(super) fn create(&self, program: &Program) -> Result<Replacement, Failure> {
        let path = match self {
            Destination::Other { path, .. } => path,
            _ => &program.path,
        };
        Replacement::new(path).map_err(|error| self.failure(path, &error))
    }

    /// Gives the verified file the attributes of the old one and renames it into place.
    pub(super) fn put_into_place(
        &self,
        program: &Program,
        replacement: Replacement,
    ) -> Result<(), Failure> {
        let path = replacement.destination().to_owned();
        let error = |error: ReplaceError| self.failure(&path, &error);
        let carried = match self {
            Destination::Same { .. }
            | Destination::Other {
                privileges: Privileges::Kept,
                ..
            } => replacement.copy_metadata(&program.file),
            // If a user copies another user's program, the copy belongs to the user who runs this.
            _ => replacement
                .copy_harmless_metadata(&program.file)
                .or_else(|_| copy_as_own(&program.file, replacement.file())),
        };
        carried.map_err(error)?;
        program.is_as_read()?;
        let backup = match self {
            Destination::Same {
                backup: Some(suffix),
                ..
            } => Some(keep(&path, suffix)?),
            _ => None,
        };
        let placed = match self {
            Destination::Same { .. } => replacement.commit_over(&program.metadata),
            _ => replacement.commit(),
        };
        if let (Err(_), Some(backup)) = (&placed, backup) {
            // The old file is still in its place, so its backup name is removed.
            let _ = fs::remove_file(backup);
        }
        placed.map(drop).map_err(error)
    }

    fn failure(&self, path: &Path, error: &ReplaceError) -> Failure {
        let failure = Failure::replace(path, error);
        match (self, error.io().map(io::Error::kind)) {
            (
                Destination::Same { .. },
                Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem),
            ) => failure.remedy("write elsewhere with -o"),
            _ => failure,
        }
    }
}

/// Copies the mode, without set-id bits, and the times.
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

/// Links the old file under a second name.
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
