//! Where a fixed file goes, and what of the old file's identity goes with it.

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
    /// Another path.
    Other {
        path: PathBuf,
        privileges: Privileges,
    },
    /// The place of the old file.
    Same {
        /// The suffix under which the old file is kept.
        backup: Option<String>,
        /// Other names of the old file.
        links: u64,
    },
}

/// What becomes of set-id bits and capabilities in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    /// There are none.
    None,
    /// The copy has none.
    LeftOut,
    /// The copy has the same, as was asked for.
    Kept,
}

impl Destination {
    /// What the arguments ask for; an error where the file cannot be replaced or copied so.
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
                    "say --privileged to replace it"
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
                Err(Failure::at(path, "is the input").remedy("say --in-place"))
            }
            _ => Ok(Destination::Other {
                path: path.to_owned(),
                privileges,
            }),
        }
    }

    /// An error where something else has a checksum of the file that counts there, unless that was
    /// said to be no matter; then a note.
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
                "say --vouched to replace it all the same, or write elsewhere with -o"
            }
            _ => "say --vouched to fix it all the same, and renew the checksum",
        };
        Err(Failure::at(&program.path, voucher).remedy(remedy))
    }

    /// What the user should know before.
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
                "its set-id bits or capabilities are left out; --privileged keeps them".to_owned(),
            ],
            _ => Vec::new(),
        }
    }

    /// Whether a file is to be written, where the old one may be right already.
    pub(super) fn is_written(&self, done_already: bool) -> bool {
        match self {
            Destination::Nowhere => false,
            Destination::Other { .. } => true,
            Destination::Same { .. } => !done_already,
        }
    }

    /// A file that is to go there. In place of a symbolic link's target, so that the link stays.
    pub(super) fn create(&self, program: &Program) -> Result<Replacement, Failure> {
        let path = match self {
            Destination::Other { path, .. } => path,
            _ => &program.path,
        };
        Replacement::new(path).map_err(|error| self.failure(path, &error))
    }

    /// Gives the verified file the old one's identity and its place.
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
            // A copy that a user makes of somebody else's program is the user's own.
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
            // The old file is still in its place, so the second name for it is of no use.
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
