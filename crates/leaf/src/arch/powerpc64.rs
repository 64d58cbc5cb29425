//! 64-bit POWER (Book3S). With the radix MMU, the PMD leaf is 2 MiB for pages of 4 KiB and of 64 KiB
//! (arch/powerpc/include/asm/book3s/64/radix-4k.h and radix-64k.h, RADIX_PTE_INDEX_SIZE). With the
//! hash MMU it is 16 MiB, and only pages of 64 KiB have transparent huge pages (hash-64k.h,
//! H_PTE_INDEX_SIZE; arch/powerpc/mm/book3s64/hash_pgtable.c, hash__has_transparent_hugepage()).

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "powerpc64",
    geometries: &[
        Geometry::PPC64_4K,
        Geometry::PPC64_64K,
        Geometry::PPC64_64K_HASH,
    ],
};

impl Geometry {
    /// POWER with the radix MMU and 4 KiB pages: 2 MiB PMD leaves.
    pub const PPC64_4K: Geometry = Geometry::new("ppc64-4k", Leaf::K4, None, Leaf::M2);
    /// POWER with the radix MMU and 64 KiB pages: 2 MiB PMD leaves.
    pub const PPC64_64K: Geometry = Geometry::new("ppc64-64k", Leaf::K64, None, Leaf::M2);
    /// POWER with the hash MMU and 64 KiB pages: 16 MiB PMD leaves.
    pub const PPC64_64K_HASH: Geometry =
        Geometry::new("ppc64-64k-hash", Leaf::K64, None, Leaf::M16);
}
