//! What would help against errors.

use std::io::{self, ErrorKind};

use hugetext_host::{ReplaceError, is_root};
use serde::{Deserialize, Serialize};

/// What would help against an error. The caller knows how its user does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Act as root or as the owner of the file.
    ActAsOwner,
    /// Free some space.
    FreeSpace,
    /// Try again.
    TryAgain,
    /// Mount proc on /proc.
    MountProc,
    /// Mount sysfs on /sys.
    MountSysfs,
    /// Boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE.
    EnableThp,
    /// Name the page sizes.
    NameGeometry,
    /// Raise the limit of locked memory.
    RaiseMemlock,
    /// Act before fs-verity seals the file.
    FixBeforeSealing,
    /// Act before the file is signed.
    FixBeforeSigning,
    /// Write elsewhere, or remove the attribute +i.
    ElsewhereOrMutable,
    /// Write elsewhere, or remove the attribute +a.
    ElsewhereOrNotAppendOnly,
    /// Permit that files which give rights are replaced.
    PermitPrivileged,
    /// Permit it, or write elsewhere.
    PermitPackageChecksum,
    /// Permit it, and renew the checksum.
    PermitChecksum,
    /// Replace the file itself.
    ReplaceInput,
    /// Name the backup differently.
    OtherBackupName,
    /// Write elsewhere.
    WriteElsewhere,
    /// Have the owner of the store make the copy.
    AskStoreOwner,
    /// Raise the limit of the store.
    RaiseStoreLimit,
    /// Name a directory for copies.
    NameStore,
    /// Name another directory for copies.
    OtherStore,
    /// Keep copies in memory.
    CopiesInMemory,
    /// None is needed: files are only warmed in place.
    WarmedInPlace,
    /// Make no copies, which needs no namespace.
    NoCopies,
    /// None is needed: nothing was changed.
    NothingChanged,
}

/// What helps against an I/O error about a file.
pub fn io_remedy(error: &io::Error) -> Option<Remedy> {
    match error.kind() {
        ErrorKind::PermissionDenied if !is_root() => Some(Remedy::ActAsOwner),
        ErrorKind::StorageFull => Some(Remedy::FreeSpace),
        _ => None,
    }
}

/// What helps where a file could not be put at a path.
pub fn replace_remedy(error: &ReplaceError) -> Option<Remedy> {
    match (error, error.io().map(io::Error::kind)) {
        (ReplaceError::Changed, _) => Some(Remedy::TryAgain),
        (_, Some(ErrorKind::StorageFull)) => Some(Remedy::FreeSpace),
        _ => None,
    }
}
