//! s390x. The PMD leaf is a segment of 1 MiB: PMD_SHIFT is _SEGMENT_SHIFT, 20
//! (arch/s390/include/asm/pgtable.h).

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "s390x",
    geometries: &[Geometry::S390X],
};

impl Geometry {
    /// s390x: 4 KiB pages, 1 MiB PMD leaves.
    pub const S390X: Geometry = Geometry::new("s390x", Leaf::K4, None, Leaf::M1);
}
