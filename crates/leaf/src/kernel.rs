//! What each kernel version allows, recorded as data.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::geometry::Leaf;
use crate::rules::RULES;

/// A kernel version: `6.18` or `6.18.15-amd64`. The text after the numbers is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major number: 6 in 6.18.
    pub major: u16,
    /// The minor number: 18 in 6.18.
    pub minor: u16,
}

impl Version {
    /// The version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Version {
        Version { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    /// As `6.18`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that does not begin with `MAJOR.MINOR`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kernel version; an example is 6.18")]
pub struct ParseVersionError(String);

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u16>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Version { major, minor }),
            _ => Err(ParseVersionError(text.to_owned())),
        }
    }
}

/// The facts of a kernel that the rules depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Its version.
    pub version: Version,
    /// Whether it was built with CONFIG_READ_ONLY_THP_FOR_FS. Linux 7.2 removed that option.
    pub read_only_thp: bool,
}

impl Kernel {
    /// Whether MADV_COLLAPSE makes PMD leaves of any regular file that nobody has open for writing,
    /// on every filesystem (`file_thp_enabled()`, mm/huge_memory.c of 6.1 to 7.1, by
    /// CONFIG_READ_ONLY_THP_FOR_FS).
    pub fn collapses_read_only_files(self) -> bool {
        let versions = Version::new(6, 1)..Version::new(7, 2);
        self.read_only_thp && versions.contains(&self.version)
    }
}

impl From<Version> for Kernel {
    /// A kernel of this version that was built without the optional features.
    fn from(version: Version) -> Kernel {
        Kernel {
            version,
            read_only_thp: false,
        }
    }
}

/// The filesystems that the rules distinguish by their page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            Filesystem::F2fs => "f2fs",
            Filesystem::Erofs => "erofs",
            Filesystem::Overlay => "overlayfs",
            Filesystem::HugeTmpfs => "tmpfs huge=always",
            Filesystem::Tmpfs => "tmpfs",
            Filesystem::Other => "this filesystem",
        })
    }
}

/// An ability of a kernel that concerns program text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The ELF loader places a PIE by its largest p_align.
    PieAlignment,
    /// The ELF loader places a static PIE by its largest p_align.
    StaticPieAlignment,
    /// mmap of a file makes address and offset congruent modulo the PMD size.
    MmapAlignment,
    /// The page cache of this filesystem holds folios of PMD order.
    LargeFolios,
    /// A fault in a mapping with MADV_HUGEPAGE reads a PMD-order folio.
    HugeReadahead,
    /// MADV_COLLAPSE works on mapped file text without CONFIG_READ_ONLY_THP_FOR_FS.
    Collapse,
    /// mprotect() handles the PTEs of a large folio in one batch.
    MprotectBatching,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 7] = [
        Topic::PieAlignment,
        Topic::StaticPieAlignment,
        Topic::MmapAlignment,
        Topic::LargeFolios,
        Topic::HugeReadahead,
        Topic::Collapse,
        Topic::MprotectBatching,
    ];
}

/// The first kernel for which a [`Topic`] holds, with the source of that fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The ability.
    pub topic: Topic,
    /// The filesystem it holds for; `None` for all.
    pub filesystem: Option<Filesystem>,
    /// The first version it holds in.
    pub since: Version,
    /// The largest leaf it holds for.
    pub largest: Leaf,
    /// The place in the kernel source.
    pub source: &'static str,
    /// The kernels of the lab on either side of `since`, if it was measured.
    pub evidence: &'static str,
}

/// The rule by which `version` has the ability `topic` on `filesystem`; `None` if it does not.
pub fn rule(topic: Topic, filesystem: Filesystem, version: Version) -> Option<&'static Rule> {
    first_rule(topic, filesystem).filter(|rule| rule.since <= version)
}

/// The rule for `topic` on `filesystem` in any version.
pub fn first_rule(topic: Topic, filesystem: Filesystem) -> Option<&'static Rule> {
    RULES
        .iter()
        .find(|rule| rule.topic == topic && rule.filesystem.is_none_or(|named| named == filesystem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_as_uname_prints_them() {
        assert_eq!("6.18.44-fc-v657".parse(), Ok(Version::new(6, 18)));
        assert_eq!("6.1".parse(), Ok(Version::new(6, 1)));
        assert!("6".parse::<Version>().is_err());
        assert!("".parse::<Version>().is_err());
        assert!("six.one".parse::<Version>().is_err());
        assert!("99999999.1".parse::<Version>().is_err());
    }

    #[test]
    fn ext4_holds_large_folios_since_6_16_only() {
        let has = |minor| rule(Topic::LargeFolios, Filesystem::Ext4, Version::new(6, minor));
        assert!(has(15).is_none());
        assert!(has(16).is_some());
        assert!(rule(Topic::LargeFolios, Filesystem::Other, Version::new(7, 3)).is_none());
    }
}
