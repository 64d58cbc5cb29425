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
    pub fn shares_blocks(self) -> bool {
        let mut known = KNOWN.iter();
        known.any(|known| known.filesystem == self && known.shares_blocks)
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
        let known = KNOWN.iter().find(|known| known.names.contains(&name));
        known.map_or(Filesystem::Other, |known| known.filesystem)
    }

    /// The filesystem of a magic number from statfs(2).
    pub fn from_magic(magic: u32) -> Filesystem {
        let known = KNOWN.iter().find(|known| known.magic == magic);
        known.map_or(Filesystem::Other, |known| known.filesystem)
    }

    /// The magic number of a filesystem; `None` if it has several, or is not known.
    pub fn magic(self) -> Option<u32> {
        let known = KNOWN.iter().find(|known| known.filesystem == self);
        let known = known.filter(|_| self != Filesystem::Other);
        known.map(|known| known.magic)
    }

    /// Whether on filesystems of this magic number the running kernel sets ctime at each change of a file.
    pub fn keeps_ctime(magic: u32) -> bool {
        let known = KNOWN.iter().find(|known| known.magic == magic);
        known.is_some_and(|known| known.keeps_ctime)
    }

    /// Whether a process or another machine serves filesystems of this name in /proc/self/mountinfo, so that they may
    /// never answer.
    pub fn is_served(name: &str) -> bool {
        // What a process serves is named behind a point, as in fuse.sshfs.
        let driver = name.split_once('.').map_or(name, |(driver, _)| driver);
        let mut known = KNOWN.iter();
        known.any(|known| known.is_served && known.names.contains(&driver))
    }
}

/// A kind of filesystem, as the kernel names it.
struct KnownFilesystem {
    filesystem: Filesystem,
    /// Its names in /proc/self/mountinfo.
    names: &'static [&'static str],
    /// f_type of statfs(2) (include/uapi/linux/magic.h, and the sources of f2fs, ZFS and bcachefs).
    magic: u32,
    /// Whether the running kernel sets ctime at each change of a file. That of erofs was made elsewhere, that of an
    /// overlay is kept by another filesystem, and tmpfs leaves it as it is at a write through a mapping that was read
    /// before.
    keeps_ctime: bool,
    /// Whether files can share blocks.
    shares_blocks: bool,
    /// Whether a process or another machine serves it.
    is_served: bool,
}

const fn known(
    filesystem: Filesystem,
    names: &'static [&'static str],
    magic: u32,
) -> KnownFilesystem {
    KnownFilesystem {
        filesystem,
        names,
        magic,
        keeps_ctime: true,
        shares_blocks: false,
        is_served: false,
    }
}

/// A filesystem that a process or another machine serves, and may change without this kernel.
const fn served(names: &'static [&'static str], magic: u32) -> KnownFilesystem {
    KnownFilesystem {
        keeps_ctime: false,
        is_served: true,
        ..known(Filesystem::Other, names, magic)
    }
}

/// Every filesystem of which something is known. ext2 and ext3 have the number of ext4, whose driver mounts them.
const KNOWN: [KnownFilesystem; 18] = [
    known(Filesystem::Ext4, &["ext4", "ext3", "ext2"], 0xef53),
    KnownFilesystem {
        shares_blocks: true,
        ..known(Filesystem::Xfs, &["xfs"], 0x5846_5342)
    },
    KnownFilesystem {
        shares_blocks: true,
        ..known(Filesystem::Btrfs, &["btrfs"], 0x9123_683e)
    },
    known(Filesystem::F2fs, &["f2fs"], 0xf2f5_2010),
    KnownFilesystem {
        keeps_ctime: false,
        ..known(Filesystem::Erofs, &["erofs"], 0xe0f5_e1e2)
    },
    KnownFilesystem {
        keeps_ctime: false,
        ..known(Filesystem::Overlay, &["overlay"], 0x794c_7630)
    },
    KnownFilesystem {
        keeps_ctime: false,
        ..known(Filesystem::Tmpfs, &["tmpfs"], 0x0102_1994)
    },
    known(Filesystem::Other, &["zfs"], 0x2fc1_2fc1),
    known(Filesystem::Other, &["bcachefs"], 0xca45_1a4e),
    served(&["9p"], 0x0102_1997),
    served(&["afs"], 0x6b41_4653),
    served(&["autofs"], 0x0187),
    served(&["ceph"], 0x00c3_6400),
    served(&["cifs"], 0xff53_4d42),
    served(&["smb3"], 0xfe53_4d42),
    served(&["coda"], 0x7375_7245),
    served(&["nfs", "nfs4"], 0x6969),
    served(&["fuse", "fuseblk", "fusectl", "virtiofs"], 0x6573_5546),
];

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
    fn only_a_filesystem_that_is_written_here_keeps_ctime() {
        for kept in [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs] {
            assert!(Filesystem::keeps_ctime(kept.magic().unwrap()), "{kept}");
        }
        let (squashfs, iso9660, fuse) = (0x7371_7368, 0x9660, 0x6573_5546);
        let made_elsewhere = [Filesystem::Erofs, Filesystem::Overlay, Filesystem::Tmpfs];
        let known = made_elsewhere.map(|kind| kind.magic().unwrap());
        for kind in known.into_iter().chain([squashfs, iso9660, fuse, 0]) {
            assert!(!Filesystem::keeps_ctime(kind), "{kind:x}");
        }
    }

    #[test]
    fn what_others_serve_may_never_answer() {
        let served = ["fuse", "fuse.sshfs", "fuseblk", "nfs4", "virtiofs"];
        assert!(served.into_iter().all(Filesystem::is_served));
        let here = ["ext4", "overlay", "tmpfs", "zfs"];
        assert!(!here.into_iter().any(Filesystem::is_served));
    }

    #[test]
    fn names_are_those_of_json() {
        for filesystem in Filesystem::NAMED {
            let json = serde_json::to_value(filesystem).unwrap();
            assert_eq!(json, filesystem.name());
        }
    }
}
