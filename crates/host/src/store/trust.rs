//! Who could have written what the store offers.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{fgetxattr, flistxattr};

use super::StoreError;

/// Write permission for group or others.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const SET_ID: u32 = 0o6000;

/// The owner of a store's directory: root or the caller. Refused if anybody else may change the
/// directory, or rename it or one above it.
pub(super) fn check_directory(root: &Path) -> Result<u32, StoreError> {
    let own = rustix::process::geteuid().as_raw();
    let bad = |path: &Path, reason| StoreError::Unsafe {
        path: path.to_owned(),
        reason,
    };
    let mut owner = None;
    for directory in root.ancestors() {
        let metadata = fs::symlink_metadata(directory).map_err(super::at(directory))?;
        if !metadata.is_dir() {
            return Err(bad(directory, "not a directory"));
        }
        if metadata.uid() != own && metadata.uid() != 0 {
            return Err(bad(directory, "it belongs to another user"));
        }
        let is_root = owner.is_none();
        // In a sticky directory, such as /tmp, others cannot rename what is not theirs.
        let sticky = metadata.mode() & STICKY != 0 && !is_root;
        if metadata.mode() & OTHERS_WRITE != 0 && !sticky {
            return Err(bad(directory, "others may write to it"));
        }
        owner.get_or_insert(metadata.uid());
    }
    owner.ok_or_else(|| bad(root, "not a directory"))
}

/// Refuses an entry that somebody other than the store's owner, or the original's, could have
/// written, or that is not protected as its original is.
pub(super) fn check_entry(
    path: &Path,
    entry: &Metadata,
    original: &Metadata,
    store_owner: u32,
) -> Result<(), StoreError> {
    let owner = match store_owner {
        0 => (original.uid(), Some(original.gid())),
        own => (own, None),
    };
    let reason = if !entry.is_file() || entry.nlink() != 1 {
        "not a file of its own"
    } else if entry.uid() != owner.0 || owner.1.is_some_and(|group| group != entry.gid()) {
        "it belongs to another user"
    } else if entry.mode() != original.mode() {
        "its mode is not that of its original"
    } else if entry.mode() & (OTHERS_WRITE | SET_ID) != 0 {
        "others may write to it, or it changes the user"
    } else {
        return Ok(());
    };
    Err(StoreError::Unsafe {
        path: path.to_owned(),
        reason,
    })
}

/// Whether a copy of a file may stand for it at all: nobody but its owner can write it, and running
/// it changes neither user nor capabilities.
pub fn may_stand_in(original: &Metadata) -> bool {
    original.is_file() && original.mode() & (OTHERS_WRITE | SET_ID) == 0
}

/// The extended attributes that decide about access, by name.
pub(super) fn deciding_xattrs(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; 1 << 16];
    let len = match flistxattr(file, &mut names[..]) {
        Ok(len) => len,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    let mut value = vec![0; 1 << 16];
    for name in names
        .get(..len)
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"security.") || name.starts_with(b"system."))
    {
        let len = fgetxattr(file, name, &mut value[..])?;
        found.push((name.to_vec(), value.get(..len).unwrap_or_default().to_vec()));
    }
    found.sort();
    Ok(found)
}
