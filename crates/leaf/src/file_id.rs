//! Which file something is.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Filesystem;

/// A file of a machine that runs: as stat(2) tells it apart from all others, and as /proc/PID/maps
/// names it. On filesystems that show stat(2) another device than the maps (btrfs, overlays), the two
/// differ.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl FileId {
    /// The file that stat(2) described.
    pub fn of(metadata: &Metadata) -> FileId {
        FileId {
            dev: metadata.dev(),
            ino: metadata.ino(),
        }
    }

    /// Whether the kernel's maps may name by this the file that stat(2) described on `filesystem`. Subvolumes of
    /// btrfs show stat(2) devices of their own, so there the inode number has to do.
    pub fn may_name(self, metadata: &Metadata, filesystem: Filesystem) -> bool {
        FileId::of(metadata) == self
            || (filesystem == Filesystem::Btrfs && metadata.ino() == self.ino)
    }
}
