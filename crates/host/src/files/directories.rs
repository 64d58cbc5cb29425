//! Directories that others can reach, with any umask of the process that makes them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod, open};

/// Makes a directory, and those above it that are missing, each with this mode. The umask takes nothing
/// away: what root makes for all users would otherwise be closed to them under a umask of 077. Directories
/// that exist keep their modes.
pub fn make_directories(path: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => set_mode(directory, mode)?,
            // Somebody else made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    if path.is_dir() {
        Ok(())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Sets the mode of a directory that was just made. A link that took its place meanwhile is not followed.
fn set_mode(directory: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = open(directory, flags, Mode::empty())?;
    Ok(fchmod(made, Mode::from_raw_mode(mode))?)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn missing_directories_get_the_mode_and_others_keep_theirs() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        let wanted = directory.path().join("a/b");
        // A umask of 022 takes nothing from 0755, so this mode stands for it.
        make_directories(&wanted, 0o777).unwrap();
        make_directories(&wanted, 0o700).unwrap();
        let modes = [
            mode(directory.path()),
            mode(&directory.path().join("a")),
            mode(&wanted),
        ];
        assert_eq!(modes, [0o700, 0o777, 0o777]);
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = make_directories(file.path(), 0o755).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(make_directories(&file.path().join("below"), 0o755).is_err());
    }
}
