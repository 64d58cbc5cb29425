//! Writes a program to a new inode, so that its page cache begins anew.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use hugetext_host::{Copier, Guard, Replacement};
use hugetext_leaf::Leaf;

use crate::program::Program;

/// What to do with a file that has set-id bits or capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privileged {
    /// It is left.
    Left,
    /// It is replaced, and the new file keeps them.
    Replaced,
}

/// Writes the same bytes to a new inode, one window at a time, so that each write fills one folio.
/// The new inode is renamed over the old one, which running processes keep. Returns the new file.
pub(crate) fn replace(program: &Program, leaf: Leaf, privileged: Privileged) -> io::Result<File> {
    if program.metadata.nlink() > 1 {
        return Err(io::Error::other(
            "it has other hard links, which would keep the old inode",
        ));
    }
    for guard in Guard::of(&program.file)? {
        match (guard, privileged) {
            (Guard::Privileged, Privileged::Replaced) => {}
            (Guard::Privileged, Privileged::Left) => {
                let problem = format!("it {guard}; use --privileged to replace it");
                return Err(io::Error::other(problem));
            }
            _ => return Err(io::Error::other(format!("it {guard}"))),
        }
    }
    let replacement = Replacement::new(&program.path).map_err(io::Error::other)?;
    let len = program.metadata.len();
    replacement.file().set_len(len)?;
    Copier::in_folios(&program.file, replacement.file(), leaf).copy(0..len, 0)?;
    replacement
        .copy_metadata(&program.file)
        .map_err(io::Error::other)?;
    replacement
        .commit_over(&program.metadata)
        .map_err(io::Error::other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn program(directory: &tempfile::TempDir) -> (PathBuf, Program) {
        let path = directory.path().join("program");
        fs::copy("/bin/true", &path).unwrap();
        (path.clone(), Program::open(&path).unwrap())
    }

    #[test]
    fn an_upgrade_in_between_is_not_undone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, program) = program(&directory);
        let upgrade = directory.path().join("upgrade");
        fs::write(&upgrade, "newer").unwrap();
        fs::rename(&upgrade, &path).unwrap();
        let error = replace(&program, Leaf::M2, Privileged::Left).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"newer");
    }

    #[test]
    fn what_gives_rights_is_replaced_only_on_demand() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = program(&directory);
        fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
        let program = Program::open(&path).unwrap();
        let inode = program.metadata.ino();
        let error = replace(&program, Leaf::M2, Privileged::Left).unwrap_err();
        assert!(error.to_string().contains("--privileged"), "{error}");
        replace(&program, Leaf::M2, Privileged::Replaced).unwrap();
        let new = path.metadata().unwrap();
        assert_eq!(new.mode() & 0o7777, 0o4755);
        assert_ne!(new.ino(), inode);
    }
}
