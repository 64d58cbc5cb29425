//! 64-bit RISC-V. The leaf of 2 MiB is the same with tables of three, four and five levels (Sv39,
//! Sv48, Sv57).
//!
//! The processor may map 64 KiB by one TLB entry (Svnapot), but Linux does not ask for it: up to 7.3,
//! it makes such entries for hugetlbfs alone (arch/riscv/mm/hugetlbpage.c), and set_ptes() of a
//! folio makes none (arch/riscv/include/asm/pgtable.h). So there is no block between the two.

use super::architecture::Architecture;
use crate::geometry::{Geometry, Leaf};

pub(super) const THIS: Architecture = Architecture {
    name: "riscv64",
    geometries: &[Geometry::RISCV64],
};

impl Geometry {
    /// 64-bit RISC-V: 4 KiB pages, 2 MiB PMD leaves.
    pub const RISCV64: Geometry = Geometry::new("riscv64", Leaf::K4, None, Leaf::M2);
}
