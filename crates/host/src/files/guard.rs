//! Properties of a file that forbid replacing it, or make replacing it pointless.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, fgetxattr, statx};
use rustix::io::Errno;

/// Something that ties a file to its exact content or to its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// fs-verity: reads are checked against a hash of the content.
    Verity,
    /// chattr +i.
    Immutable,
    /// chattr +a.
    AppendOnly,
    /// security.ima or security.evm: the kernel checks a signature or hash of the content.
    Signed,
    /// A set-user-ID or set-group-ID bit, or file capabilities: every process that runs it gains
    /// rights.
    Privileged,
}

impl fmt::Display for Guard {
    /// A predicate about the file: `is immutable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Guard::Verity => "is protected by fs-verity",
            Guard::Immutable => "is immutable",
            Guard::AppendOnly => "is append-only",
            Guard::Signed => "has an IMA or EVM signature",
            Guard::Privileged => "has set-id bits or capabilities",
        })
    }
}

impl Guard {
    /// The guards of `file`.
    pub fn of(file: &File) -> io::Result<Vec<Guard>> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
        let attributes = [
            (StatxAttributes::VERITY, Guard::Verity),
            (StatxAttributes::IMMUTABLE, Guard::Immutable),
            (StatxAttributes::APPEND, Guard::AppendOnly),
        ];
        let mut guards: Vec<Guard> = attributes
            .into_iter()
            .filter(|(attribute, _)| stat.stx_attributes.contains(*attribute))
            .map(|(_, guard)| guard)
            .collect();
        // With an empty buffer, rustix returns no size, so the value needs room.
        let has = |name: &str| {
            let found = fgetxattr(file, name, &mut [0_u8; 1][..]);
            matches!(found, Ok(_) | Err(Errno::RANGE))
        };
        if has("security.ima") || has("security.evm") {
            guards.push(Guard::Signed);
        }
        if file.metadata()?.mode() & 0o6000 != 0 || has("security.capability") {
            guards.push(Guard::Privileged);
        }
        Ok(guards)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{XattrFlags, fsetxattr};

    use super::*;

    #[test]
    fn what_is_guarded_is_known() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Guard::of(&file).unwrap(), []);
        file.set_permissions(Permissions::from_mode(0o4755))
            .unwrap();
        assert_eq!(Guard::of(&file).unwrap(), [Guard::Privileged]);
        // Setting it needs privileges and a filesystem that supports it.
        match fsetxattr(&file, "security.ima", &[3, 1], XattrFlags::empty()) {
            Ok(()) => assert!(Guard::of(&file).unwrap().contains(&Guard::Signed)),
            Err(error) => println!("skipped: cannot set security.ima: {error}"),
        }
    }
}
