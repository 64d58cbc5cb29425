//! The filesystems that the rules distinguish.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The filesystems that the rules distinguish by their page cache.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// ext4 (ext2 and ext3 mounted by it included).
    Ext4,
    /// xfs.
    Xfs,
    /// btrfs.
    Btrfs,
    /// f2fs.
    F2fs,
    /// erofs.
    Erofs,
    /// overlayfs. Its pages are those of the filesystem that stores the file, so rules about the
    /// page cache apply to that one. overlayfs itself places the mappings, and aligns none
    /// (measured over ext4: both facts, on every kernel).
    Overlay,
    /// tmpfs mounted with huge=always.
    HugeTmpfs,
    /// tmpfs with another huge= option.
    Tmpfs,
    /// Any other filesystem.
    Other,
}

impl Filesystem {
    /// Every filesystem with a name of its own: all except [`Filesystem::Other`].
    pub const NAMED: [Filesystem; 8] = [
        Filesystem::Ext4,
        Filesystem::Xfs,
        Filesystem::Btrfs,
        Filesystem::F2fs,
        Filesystem::Erofs,
        Filesystem::Overlay,
        Filesystem::HugeTmpfs,
        Filesystem::Tmpfs,
    ];

    /// Whether a copy of a file can share its blocks on disk with it (FICLONERANGE). Each still has a page
    /// cache of its own.
    pub const fn shares_blocks(self) -> bool {
        matches!(self, Filesystem::Xfs | Filesystem::Btrfs)
    }

    /// One lowercase word, as in JSON and in the record of the lab.
    pub const fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            Filesystem::F2fs => "f2fs",
            Filesystem::Erofs => "erofs",
            Filesystem::Overlay => "overlay",
            Filesystem::HugeTmpfs => "hugetmpfs",
            Filesystem::Tmpfs => "tmpfs",
            Filesystem::Other => "other",
        }
    }

    /// The filesystem of a name in /proc/self/mountinfo. tmpfs is [`Filesystem::Tmpfs`]; its mount
    /// options decide whether it is a huge one.
    pub fn from_name(name: &str) -> Filesystem {
        match name {
            "ext4" | "ext3" | "ext2" => Filesystem::Ext4,
            "xfs" => Filesystem::Xfs,
            "btrfs" => Filesystem::Btrfs,
            "f2fs" => Filesystem::F2fs,
            "erofs" => Filesystem::Erofs,
            "overlay" => Filesystem::Overlay,
            "tmpfs" => Filesystem::Tmpfs,
            _ => Filesystem::Other,
        }
    }

    /// The filesystem of a magic number from statfs(2) (include/uapi/linux/magic.h, and fs/f2fs of
    /// Linux). ext2 and ext3 have the number of ext4, whose driver mounts them.
    pub fn from_magic(magic: u32) -> Filesystem {
        match magic {
            0xef53 => Filesystem::Ext4,
            0x5846_5342 => Filesystem::Xfs,
            0x9123_683e => Filesystem::Btrfs,
            0xf2f5_2010 => Filesystem::F2fs,
            0xe0f5_e1e2 => Filesystem::Erofs,
            0x794c_7630 => Filesystem::Overlay,
            0x0102_1994 => Filesystem::Tmpfs,
            _ => Filesystem::Other,
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filesystem::Overlay => "overlayfs",
            Filesystem::HugeTmpfs => "tmpfs huge=always",
            Filesystem::Other => "this filesystem",
            named => named.name(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for filesystem in Filesystem::NAMED {
            let json = serde_json::to_value(filesystem).unwrap();
            assert_eq!(json, filesystem.name());
        }
    }
}
