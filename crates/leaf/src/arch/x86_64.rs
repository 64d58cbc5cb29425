//! x86-64.

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "x86_64",
    geometries: &[Geometry::X86_64],
};

impl Geometry {
    /// x86-64: 4 KiB pages, 2 MiB PMD leaves.
    pub const X86_64: Geometry = Geometry::new("x86-64", Leaf::K4, None, Leaf::M2);
}
