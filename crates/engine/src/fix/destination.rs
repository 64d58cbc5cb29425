//! Where a fixed file goes, and which attributes of the old file it takes over.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hugetext_host::{Guard, ReplaceError, Replacement};
use hugetext_leaf::FileId;

use super::plan::FixNote;
use crate::error::Error;
use crate::packages::Packages;
use crate::program::Program;
use crate::voucher::{Voucher, checked_at_use};

/// Where the user wants the new file.
#[derive(Debug, Clone)]
pub enum FixTarget {
    /// Nowhere: nothing is written. What a copy at another path would be refused is refused.
    DryRun {
        /// Whether a checksum of the file that is kept elsewhere may be broken.
        vouched: bool,
    },
    /// At another path.
    Copy {
        /// The path.
        path: PathBuf,
        /// Whether the copy keeps set-id bits and capabilities.
        privileged: bool,
        /// Whether a checksum of the file that is kept elsewhere may be broken.
        vouched: bool,
    },
    /// In the place of the old file.
    InPlace {
        /// The suffix under which the old file is kept.
        backup: Option<String>,
        /// Whether a file with set-id bits or capabilities is replaced; the new file keeps them.
        privileged: bool,
        /// As above.
        vouched: bool,
    },
}

/// Where the new file goes.
#[derive(Debug, PartialEq, Eq)]
pub enum FixDestination {
    /// Nothing is written.
    Nowhere {
        /// Whether a checksum that is kept elsewhere may be broken.
        vouched: bool,
    },
    /// The new file is written to another path.
    Other {
        /// The path.
        path: PathBuf,
        /// What happens to set-id bits and capabilities.
        privileges: Privileges,
        /// Whether a checksum that is kept elsewhere may be broken.
        vouched: bool,
    },
    /// The new file replaces the old one.
    Same {
        /// The suffix under which the old file is kept.
        backup: Option<String>,
        /// Further hard links of the old file.
        links: u64,
        /// Whether a checksum that is kept elsewhere may be broken.
        vouched: bool,
    },
}

/// What happens to set-id bits and capabilities in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileges {
    /// The old file has none.
    None,
    /// The copy goes without them.
    LeftOut,
    /// The copy keeps them, as the user asked.
    Kept,
}

impl FixDestination {
    /// The destination that the user wants; an error where the file may not be replaced or copied.
    pub fn of(program: &Program, target: &FixTarget) -> Result<FixDestination, Error> {
        let guards = Guard::of(&program.file).map_err(Error::io(&program.path))?;
        let in_place = matches!(target, FixTarget::InPlace { .. });
        let forbids = |guard: &Guard| match guard {
            Guard::Verity | Guard::Signed => true,
            Guard::Immutable | Guard::AppendOnly => in_place,
            Guard::Privileged => in_place && !target.privileged(),
        };
        if let Some(guard) = guards.iter().find(|guard| forbids(guard)) {
            return Err(Error::Guarded {
                path: program.path.clone(),
                guard: *guard,
            });
        }
        match target {
            FixTarget::DryRun { vouched } => Ok(FixDestination::Nowhere { vouched: *vouched }),
            FixTarget::InPlace {
                backup, vouched, ..
            } => Ok(FixDestination::Same {
                backup: backup.clone(),
                links: program.metadata.nlink().saturating_sub(1),
                vouched: *vouched,
            }),
            FixTarget::Copy {
                path,
                privileged,
                vouched,
            } => {
                let there = fs::metadata(path).ok();
                if there.is_some_and(|there| FileId::of(&there) == program.id()) {
                    return Err(Error::OutputIsInput { path: path.clone() });
                }
                let privileges = match (guards.contains(&Guard::Privileged), privileged) {
                    (false, _) => Privileges::None,
                    (true, true) => Privileges::Kept,
                    (true, false) => Privileges::LeftOut,
                };
                Ok(FixDestination::Other {
                    path: path.clone(),
                    privileges,
                    vouched: *vouched,
                })
            }
        }
    }

    /// What keeps a checksum of the file and compares it; an error if that is not permitted.
    pub(super) fn voucher(
        &self,
        program: &Program,
        packages: &Packages,
    ) -> Result<Option<Voucher>, Error> {
        let (vouched, elsewhere) = match self {
            FixDestination::Nowhere { vouched } | FixDestination::Other { vouched, .. } => {
                (*vouched, true)
            }
            FixDestination::Same { vouched, .. } => (*vouched, false),
        };
        let package = || {
            if matches!(self, FixDestination::Other { .. }) {
                None
            } else {
                packages.package_of(&program.path)
            }
        };
        let voucher = checked_at_use(program).or_else(package);
        // A package matters only where the file is replaced.
        let matters = |voucher: &Voucher| !elsewhere || !matches!(voucher, Voucher::Package { .. });
        match voucher {
            Some(voucher) if !vouched && matters(&voucher) => Err(vouched_for(program, voucher)),
            voucher => Ok(voucher),
        }
    }

    /// What the user should know about the destination.
    pub(super) fn note(&self) -> Option<FixNote> {
        match self {
            FixDestination::Same { links, .. } if *links > 0 => Some(FixNote::OtherLinks(*links)),
            FixDestination::Other {
                privileges: Privileges::LeftOut,
                ..
            } => Some(FixNote::PrivilegesLeftOut),
            _ => None,
        }
    }

    /// What becomes of profiles and core dumps of before.
    pub(super) fn old_traces(&self) -> Option<FixNote> {
        match self {
            FixDestination::Same { backup, .. } => Some(FixNote::OldTraces {
                kept: backup.is_some(),
            }),
            FixDestination::Nowhere { .. } | FixDestination::Other { .. } => None,
        }
    }

    /// Whether to write a file even if the old layout is right already.
    pub fn is_written(&self, done_already: bool) -> bool {
        match self {
            FixDestination::Nowhere { .. } => false,
            FixDestination::Other { .. } => true,
            FixDestination::Same { .. } => !done_already,
        }
    }

    /// A new file for the destination. It is made next to a symbolic link's target, so that the
    /// link stays.
    pub(super) fn create(&self, program: &Program) -> Result<Replacement, Error> {
        let path = match self {
            FixDestination::Other { path, .. } => path,
            _ => &program.path,
        };
        Replacement::new(path).map_err(|error| self.failed(path, error))
    }

    /// Gives the verified file the attributes of the old one and renames it into place. Returns the
    /// file.
    pub(super) fn put_into_place(
        &self,
        program: &Program,
        replacement: Replacement,
    ) -> Result<File, Error> {
        let path = replacement.destination().to_owned();
        let failed = |error: ReplaceError| self.failed(&path, error);
        let carried = match self {
            FixDestination::Same { .. }
            | FixDestination::Other {
                privileges: Privileges::Kept,
                ..
            } => replacement.copy_metadata(&program.file),
            // If a user copies another user's program, the copy belongs to the user who runs this.
            _ => replacement
                .copy_harmless_metadata(&program.file)
                .or_else(|_| copy_as_own(&program.file, replacement.file())),
        };
        carried.map_err(failed)?;
        program.ensure_unchanged()?;
        let backup = match self {
            FixDestination::Same {
                backup: Some(suffix),
                ..
            } => Some(back_up(&path, suffix)?),
            _ => None,
        };
        let placed = match self {
            FixDestination::Same { .. } => replacement.commit_over(&program.metadata),
            _ => replacement.commit(),
        };
        if let (Err(_), Some(backup)) = (&placed, backup) {
            // The old file is still in its place, so its backup name is removed.
            let _ = fs::remove_file(backup);
        }
        placed.map_err(failed)
    }

    fn failed(&self, path: &Path, source: ReplaceError) -> Error {
        let path = path.to_owned();
        match self {
            FixDestination::Same { .. } => Error::ReplaceInPlace { path, source },
            _ => Error::Replace { path, source },
        }
    }
}

impl FixTarget {
    fn privileged(&self) -> bool {
        match self {
            FixTarget::DryRun { .. } => false,
            FixTarget::Copy { privileged, .. } | FixTarget::InPlace { privileged, .. } => {
                *privileged
            }
        }
    }
}

/// An error where no fixed copy of the program may be made, wherever it would lie.
pub(super) fn may_be_copied(program: &Program) -> Result<(), Error> {
    FixDestination::of(program, &FixTarget::DryRun { vouched: false })?;
    match checked_at_use(program) {
        Some(voucher) => Err(vouched_for(program, voucher)),
        None => Ok(()),
    }
}

fn vouched_for(program: &Program, voucher: Voucher) -> Error {
    let path = program.path.clone();
    Error::Vouched { path, voucher }
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
fn back_up(path: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let mut name = OsString::from(path);
    name.push(suffix);
    let backup = PathBuf::from(name);
    match fs::hard_link(path, &backup) {
        Ok(()) => Ok(backup),
        Err(source) => Err(Error::Backup {
            path: backup,
            source,
        }),
    }
}
