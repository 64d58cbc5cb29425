//! Processor cores whose instruction TLBs are modelled, each number with its source.
//!
//! Vendors publish sizes and associativities, and little else. Not public for any of these cores,
//! and therefore assumed for all: true LRU replacement, sets chosen by the lowest bits of the entry
//! number without hashing, both levels filled on a miss, no prefetch of translations. Second levels
//! that are shared with data are given to instructions alone, so their misses are a lower bound.

use hugetext_leaf::{Geometry, Leaf};
use serde::Serialize;

use crate::array::Shape;
use crate::model::Translation;

/// The instruction TLBs of a core.
#[derive(Debug, PartialEq, Eq)]
pub struct Core {
    /// The name used on the command line.
    pub name: &'static str,
    /// Whether the second level is shared with data.
    pub l2_shared: bool,
    /// The leaf sizes of the kernel that runs on it: 4K pages everywhere here.
    pub geometry: Geometry,
    /// Arrays of the first level, looked up together.
    pub l1: &'static [Shape],
    /// Arrays of the second level.
    pub l2: &'static [Shape],
    /// The block of base pages that the core itself makes one entry of when they are contiguous
    /// and aligned, without help of the page table.
    pub coalesces: Option<Leaf>,
    /// Where the numbers are from.
    pub sources: &'static [Source],
}

/// Where a number is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Source {
    /// What it says.
    pub what: &'static str,
    /// The document, or why the assumption.
    pub from: &'static str,
    /// Whether the vendor says so in public; else it is an assumption of this model.
    pub published: bool,
}

const fn published(what: &'static str, from: &'static str) -> Source {
    Source {
        what,
        from,
        published: true,
    }
}

const fn assumed(what: &'static str, from: &'static str) -> Source {
    Source {
        what,
        from,
        published: false,
    }
}

const M1: Leaf = match Leaf::from_bytes(1 << 20) {
    Some(leaf) => leaf,
    None => Leaf::M2,
};

const ZEN_SIZES: &[Leaf] = &[Leaf::K4, Leaf::K16, Leaf::M2];
const ARM_SIZES: &[Leaf] = &[Leaf::K4, Leaf::K64, Leaf::M2];

const ZEN_L1: &[Shape] = &[Shape {
    entries: 64,
    ways: 64,
    holds: ZEN_SIZES,
}];
const ZEN_COALESCING: Source = assumed(
    "four contiguous 4K pages in an aligned 16K become one entry in both levels",
    "AMD describes coalescing of 4K translations since family 17h; that it holds for both \
     instruction TLBs, and asks for nothing but contiguity, is taken for granted here",
);

/// AMD Zen 4.
pub const ZEN4: Core = Core {
    name: "zen4",
    l2_shared: false,
    geometry: Geometry::X86_64,
    l1: ZEN_L1,
    l2: &[Shape {
        entries: 512,
        ways: 8,
        holds: ZEN_SIZES,
    }],
    coalesces: Some(Leaf::K16),
    sources: &[
        published(
            "L1: 64 entries, fully associative, every page size",
            "Software Optimization Guide for the AMD Zen 4 Microarchitecture (57647), 2.7 Memory \
             Address Translation; CPUID 8000_0005h",
        ),
        published(
            "L2: 512 entries, 4K and 2M",
            "the same section; CPUID 8000_0006h",
        ),
        assumed(
            "L2: 8 ways, one array for all sizes",
            "as the guides of families 17h and 19h have it; CPUID gives the ways of each size apart",
        ),
        ZEN_COALESCING,
    ],
};

/// AMD Zen 5.
pub const ZEN5: Core = Core {
    name: "zen5",
    l2_shared: false,
    geometry: Geometry::X86_64,
    l1: ZEN_L1,
    l2: &[Shape {
        entries: 2048,
        ways: 8,
        holds: ZEN_SIZES,
    }],
    coalesces: Some(Leaf::K16),
    sources: &[
        published(
            "L1: 64 entries, fully associative, every page size",
            "Software Optimization Guide for the AMD Zen5 Microarchitecture (58455), 2.7 Memory \
             Address Translation; CPUID 8000_0005h of a family 1Ah processor: 64, fully associative",
        ),
        published(
            "L2: 2048 entries, 4K and 2M",
            "the same section; CPUID 8000_0006h of a family 1Ah processor: 64 in units of 32",
        ),
        assumed(
            "L2: 8 ways, one array for all sizes",
            "as Zen 4; CPUID of a family 1Ah processor says 4 ways for 4K and 2 for 2M, which fits \
             a skewed array that this model does not have",
        ),
        ZEN_COALESCING,
    ],
};

/// Intel Golden Cove.
pub const GOLDEN_COVE: Core = Core {
    name: "golden-cove",
    l2_shared: true,
    geometry: Geometry::X86_64,
    l1: &[
        Shape {
            entries: 256,
            ways: 8,
            holds: &[Leaf::K4],
        },
        Shape {
            entries: 32,
            ways: 8,
            holds: &[Leaf::M2],
        },
    ],
    l2: &[Shape {
        entries: 2048,
        ways: 16,
        holds: &[Leaf::K4, Leaf::M2],
    }],
    coalesces: None,
    sources: &[
        published(
            "L1: 256 entries for 4K, 32 for 2M/4M",
            "Intel 64 and IA-32 Architectures Optimization Reference Manual (248966), Golden Cove \
             microarchitecture, front end",
        ),
        published(
            "L2: 2048 entries, shared with data",
            "the same manual, Golden Cove, memory subsystem; CPUID leaf 18h",
        ),
        assumed(
            "L1: 8 ways; L2: 16 ways, one array for 4K and 2M",
            "as CPUID leaf 18h reports for the cores before it",
        ),
    ],
};

/// Arm Neoverse V2.
pub const NEOVERSE_V2: Core = Core {
    name: "neoverse-v2",
    l2_shared: true,
    geometry: Geometry::ARM64_4K,
    l1: &[Shape {
        entries: 48,
        ways: 48,
        holds: &[Leaf::K4, Leaf::K16, Leaf::K64, Leaf::M2],
    }],
    l2: &[Shape {
        entries: 2048,
        ways: 8,
        holds: ARM_SIZES,
    }],
    coalesces: None,
    sources: &[
        published(
            "L1: 48 entries, fully associative; 4K, 16K, 64K and 2M",
            "Arm Neoverse V2 Core Technical Reference Manual (102375), Memory management",
        ),
        published(
            "L2: 2048 entries, 8 ways, shared with data",
            "the same chapter",
        ),
        assumed(
            "no coalescing beyond the contiguous bit",
            "its L2 may hold four contiguous pages in an entry, as Cortex-A76 does (TRM 100798, \
             A6.6); the conditions are not public",
        ),
    ],
};

/// Arm Cortex-A53.
pub const CORTEX_A53: Core = Core {
    name: "cortex-a53",
    l2_shared: true,
    geometry: Geometry::ARM64_4K,
    l1: &[Shape {
        entries: 10,
        ways: 10,
        holds: ARM_SIZES,
    }],
    l2: &[Shape {
        entries: 512,
        ways: 4,
        holds: ARM_SIZES,
    }],
    coalesces: None,
    sources: &[
        published(
            "L1: 10 entries (micro TLB)",
            "ARM Cortex-A53 MPCore Processor Technical Reference Manual (DDI 0500), 5.2.1",
        ),
        published(
            "L2: 512 entries, 4 ways, every block size but 1G, shared with data",
            "the same manual, 5.2.2",
        ),
        assumed(
            "the micro TLB is fully associative and holds 4K, 64K and 2M",
            "the manual does not name its sizes",
        ),
    ],
};

/// Arm Cortex-A72.
pub const CORTEX_A72: Core = Core {
    name: "cortex-a72",
    l2_shared: true,
    geometry: Geometry::ARM64_4K,
    l1: &[Shape {
        entries: 48,
        ways: 48,
        holds: &[Leaf::K4, Leaf::K64, M1],
    }],
    l2: &[Shape {
        entries: 1024,
        ways: 4,
        holds: ARM_SIZES,
    }],
    coalesces: None,
    sources: &[
        published(
            "L1: 48 entries, fully associative; 4K, 64K and 1M, so a 2M block is held in halves",
            "ARM Cortex-A72 MPCore Processor Technical Reference Manual (100095), 5.2.1",
        ),
        published(
            "L2: 1024 entries, 4 ways; 4K, 64K and 2M among others, shared with data",
            "the same manual, 5.2.3",
        ),
    ],
};

impl Core {
    /// Every core the command knows by name.
    pub const ALL: [&'static Core; 6] = [
        &ZEN4,
        &ZEN5,
        &GOLDEN_COVE,
        &NEOVERSE_V2,
        &CORTEX_A53,
        &CORTEX_A72,
    ];

    /// The core of that name.
    pub fn named(name: &str) -> Option<&'static Core> {
        Self::ALL.into_iter().find(|core| core.name == name)
    }

    /// The largest block that one entry could stand for: the PMD leaf; a contpte block, which Linux
    /// marks wherever an aligned one lies in one folio and one mapping (arm64, `contpte.c`, since
    /// 6.9); what the core coalesces by itself; else the base page.
    pub(crate) fn entry_size(&self, translation: Translation) -> Leaf {
        let Geometry {
            page, contpte, pmd, ..
        } = self.geometry;
        if translation.leaf >= pmd {
            return pmd;
        }
        let blocks = [contpte, self.coalesces];
        let fitting = blocks
            .into_iter()
            .flatten()
            .filter(|block| *block <= translation.run);
        fitting.max().unwrap_or(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_possible() {
        for core in Core::ALL {
            for level in [core.l1, core.l2] {
                let page = core.geometry.page;
                assert!(level.iter().any(|shape| shape.entry_size(page).is_some()));
                for shape in level {
                    assert_eq!(shape.entries % shape.ways, 0, "{}", core.name);
                    assert!(shape.sets().is_power_of_two(), "{}", core.name);
                    assert!(shape.holds.is_sorted(), "{}", core.name);
                }
            }
            assert_eq!(Core::named(core.name), Some(core));
        }
    }
}
