//! 64-bit MIPS. PMD_SHIFT is PAGE_SHIFT + (PAGE_SHIFT - 3), since a page of entries of 8 bytes is a
//! table (arch/mips/include/asm/pgtable-64.h). Nothing is known here of 32-bit MIPS kernels.

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "mips64",
    geometries: &[
        Geometry::MIPS64_4K,
        Geometry::MIPS64_16K,
        Geometry::MIPS64_64K,
    ],
};

impl Geometry {
    /// 64-bit MIPS with 4 KiB pages: 2 MiB PMD leaves.
    pub const MIPS64_4K: Geometry = Geometry::new("mips64-4k", Leaf::K4, None, Leaf::M2);
    /// 64-bit MIPS with 16 KiB pages: 32 MiB PMD leaves.
    pub const MIPS64_16K: Geometry = Geometry::new("mips64-16k", Leaf::K16, None, Leaf::M32);
    /// 64-bit MIPS with 64 KiB pages: 512 MiB PMD leaves.
    pub const MIPS64_64K: Geometry = Geometry::new("mips64-64k", Leaf::K64, None, Leaf::M512);
}
