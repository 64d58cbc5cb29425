//! How pages of code are mapped.

use hugetext_leaf::Leaf;

/// How a page of code is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// Virtual address, in bytes.
    pub address: u64,
    /// The memory that one page-table entry maps: the base page or the PMD leaf.
    pub leaf: Leaf,
    /// The largest aligned block around the address that lies in one mapping and in one folio, so
    /// that it is contiguous in virtual and in physical addresses; at least `leaf`.
    pub run: Leaf,
}

impl Translation {
    /// A single base page of 4 KiB.
    pub const fn base_page(address: u64) -> Translation {
        Translation {
            address,
            leaf: Leaf::K4,
            run: Leaf::K4,
        }
    }
}
