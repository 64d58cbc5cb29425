//! arm64. Linux sets the contiguous bit of file folios since 6.9 (arch/arm64/mm/contpte.c).

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "aarch64",
    geometries: &[Geometry::ARM64_4K, Geometry::ARM64_16K, Geometry::ARM64_64K],
};

impl Geometry {
    /// arm64 with 4 KiB pages: 64 KiB contpte blocks, 2 MiB PMD leaves.
    pub const ARM64_4K: Geometry = Geometry::new("arm64-4k", Leaf::K4, Some(Leaf::K64), Leaf::M2);
    /// arm64 with 16 KiB pages: 2 MiB contpte blocks, 32 MiB PMD leaves.
    pub const ARM64_16K: Geometry =
        Geometry::new("arm64-16k", Leaf::K16, Some(Leaf::M2), Leaf::M32);
    /// arm64 with 64 KiB pages: 2 MiB contpte blocks, 512 MiB PMD leaves.
    pub const ARM64_64K: Geometry =
        Geometry::new("arm64-64k", Leaf::K64, Some(Leaf::M2), Leaf::M512);
}
