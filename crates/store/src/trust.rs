//! Checks who could have written the content of the store.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{fgetxattr, flistxattr};

use crate::error::{StoreError, at};

/// Write permission for group or others.
const OTHERS_WRITE: u32 = 0o022;
/// Permission for others to go through a directory.
const OTHERS_SEARCH: u32 = 0o001;
/// Write permission for anybody.
const ANY_WRITE: u32 = 0o222;
const STICKY: u32 = 0o1000;
const SET_ID: u32 = 0o6000;

/// The owner of a store's directory: root or the caller. An error if any other user may change the
/// directory, or rename it or one above it.
pub(crate) fn check_directory(root: &Path) -> Result<u32, StoreError> {
    let own = rustix::process::geteuid().as_raw();
    let bad = |path: &Path, reason| StoreError::Unsafe {
        path: path.to_owned(),
        reason,
    };
    let mut owner = None;
    for directory in root.ancestors() {
        let metadata = fs::symlink_metadata(directory).map_err(at(directory))?;
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

/// Rejects an entry that does not belong to the store's owner, that can be written, or that is not
/// protected like its original.
pub(crate) fn check_entry(
    path: &Path,
    entry: &Metadata,
    original: &Metadata,
    store_owner: u32,
) -> Result<(), StoreError> {
    // A user other than root cannot give its files to another group; no one else can access them.
    let group = (store_owner == 0).then_some(original.gid());
    let reason = if !entry.is_file() || entry.nlink() != 1 {
        "not a single regular file"
    } else if entry.uid() != store_owner || group.is_some_and(|group| group != entry.gid()) {
        "it belongs to another user"
    } else if entry.mode() & (ANY_WRITE | SET_ID) != 0 {
        "it can be written, or it changes the user"
    } else if entry.mode() != original.mode() & !ANY_WRITE {
        "its mode is not that of its original"
    } else {
        return Ok(());
    };
    Err(StoreError::Unsafe {
        path: path.to_owned(),
        reason,
    })
}

/// Whether a copy may replace a file that belongs to the caller. Nobody but its owner may write the
/// original, running it must change neither user nor capabilities, and every user who may read or
/// execute the file must also be able to read or execute the copy.
pub fn may_stand_in(original: &File) -> io::Result<bool> {
    let metadata = original.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    let has_list = has_access_list(original);
    Ok(metadata.is_file() && serves_all(metadata.mode(), metadata.uid(), own, has_list))
}

/// With an access list, the mode alone does not tell what the file's owner may do as another user.
fn serves_all(mode: u32, owner: u32, own: u32, has_list: bool) -> bool {
    let [user, group, other] = [mode >> 6, mode >> 3, mode].map(|class| class & 0o5);
    let keeps = match owner {
        same if same == own => true,
        // Root may read every file, and execute any file that some user may execute.
        0 => true,
        _ => !has_list && user & !(group & other) == 0,
    };
    // The owner of the copy must be able to do what any other class may do. Most libraries can be read and not
    // executed, which is enough to map them.
    let leads = user & 0o4 != 0 && (group | other) & !user == 0;
    mode & (OTHERS_WRITE | SET_ID) == 0 && leads && keeps
}

/// Whether every user could reach a file by its path, as far as modes tell: an access list on the
/// way may exclude some.
pub(crate) fn is_open_to_all(path: &Path) -> bool {
    path.is_absolute()
        && path.ancestors().skip(1).all(|directory| {
            File::open(directory).is_ok_and(|opened| {
                let metadata = opened.metadata();
                metadata.is_ok_and(|metadata| metadata.mode() & OTHERS_SEARCH != 0)
                    && !has_access_list(&opened)
            })
        })
}

fn has_access_list(file: &File) -> bool {
    // With an empty buffer, rustix returns no size, so the value needs room.
    let found = fgetxattr(file, "system.posix_acl_access", &mut [0_u8; 1][..]);
    matches!(found, Ok(_) | Err(rustix::io::Errno::RANGE))
}

/// The extended attributes that decide about access, by name.
pub(crate) fn deciding_xattrs(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_loses_a_right_to_a_copy_of_another_owner() {
        const APP: u32 = 1;
        const ME: u32 = 2;
        let serves = |mode, owner| serves_all(mode, owner, ME, false);
        assert!(serves(0o755, APP) && serves(0o555, APP) && serves(0o755, 0));
        assert!(serves(0o700, ME) && serves(0o750, ME) && serves(0o750, 0));
        assert!(
            !serves(0o700, APP),
            "the owner could not run its own program"
        );
        assert!(!serves(0o711, APP), "the owner could not read it");
        assert!(!serves_all(0o755, APP, ME, true));
        assert!(serves(0o644, APP) && serves(0o644, 0) && serves(0o640, ME));
        assert!(!serves(0o640, APP), "the owner could not read its library");
        for mode in [0o775, 0o757, 0o4755, 0o2755, 0o655, 0o055] {
            assert!(!serves(mode, ME), "{mode:o}");
        }
    }

    #[test]
    fn a_closed_directory_on_the_way_keeps_others_out() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode));
        let program = fs::canonicalize(directory.path()).unwrap().join("program");
        set(0o755).unwrap();
        let open = is_open_to_all(&program);
        assert_eq!(open, is_open_to_all(directory.path()));
        set(0o750).unwrap();
        assert!(!is_open_to_all(&program));
    }
}
