//! What forbids to put another file in the place of one, or makes that pointless.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, fgetxattr, statx};

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
    /// A set-user-ID or set-group-ID bit, or file capabilities: whoever runs it gains rights.
    Privileged,
}

impl Guard {
    /// What guards `file`.
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
        let mut none: [u8; 0] = [];
        let mut has = |name: &str| fgetxattr(file, name, &mut none[..]).is_ok_and(|len| len > 0);
        if has("security.ima") || has("security.evm") {
            guards.push(Guard::Signed);
        }
        if file.metadata()?.mode() & 0o6000 != 0 || has("security.capability") {
            guards.push(Guard::Privileged);
        }
        Ok(guards)
    }
}
