//! 32-bit ARM with the large physical address extension (LPAE): PMD_SHIFT is 21
//! (arch/arm/include/asm/pgtable-3level.h). Kernels without it have no transparent huge pages
//! (arch/arm/Kconfig, HAVE_ARCH_TRANSPARENT_HUGEPAGE).

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "arm",
    geometries: &[Geometry::ARM_LPAE],
};

impl Geometry {
    /// 32-bit ARM with LPAE: 4 KiB pages, 2 MiB PMD leaves.
    pub const ARM_LPAE: Geometry = Geometry::new("arm-lpae", Leaf::K4, None, Leaf::M2);
}
