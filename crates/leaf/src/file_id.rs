//! Which file something is.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}
