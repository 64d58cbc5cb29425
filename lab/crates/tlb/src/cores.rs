//! Processor cores whose instruction TLBs are modelled, each figure with its source.
//!
//! Vendors publish sizes and associativities, in manuals and by CPUID, and little else. CPUID is
//! quoted from the dumps of many processors at <https://github.com/InstLatx64/InstLatx64> (commit
//! 087af2c), which name each file by vendor and family. The following facts are not public for any
//! of these cores, and are therefore assumed for all: true LRU replacement, sets chosen by the
//! lowest bits of the entry number without hashing, both levels filled on a miss, no prefetch of
//! translations. Second levels that are shared with data are modelled for instructions alone, so
//! their misses are a lower bound.

use hugetext_leaf::{Geometry, Leaf};
use schemars::JsonSchema;
use serde::Serialize;

use crate::array::Shape;
use crate::translation::Translation;

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
    /// The block of base pages for which the core itself makes one entry when they are contiguous
    /// and aligned, without help of the page table.
    pub coalesces: Option<Leaf>,
    /// The sources of the figures.
    pub sources: &'static [Source],
}

/// The source of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Source {
    /// The content of the source.
    pub what: &'static str,
    /// The document, or the reason for the assumption.
    pub from: &'static str,
    /// Whether the vendor publishes it, in a manual or by CPUID, and it was looked up there;
    /// otherwise it is an assumption of this model.
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
    "replies on the kernel list mention coalescing by 16K or 32K on AMD (to the patch that added \
     exec_folio_order()); its conditions are not public",
);
const ZEN_WAYS: Source = assumed(
    "L2: 8 ways, one array for all sizes",
    "so it is in Zen 1 and 2, with 512 entries (Software Optimization Guide for Family 17h, 55723, \
     as quoted at <https://www.7-cpu.com/cpu/Zen2.html>); CPUID 8000_0006h of this core says 4 ways \
     for 4K and 2 for 2M, which one plain array cannot have",
);
const ZEN_SHARED: Source = assumed(
    "L1 and L2: the entries for 4K and 2M are the same ones",
    "so it is in Zen 1 and 2 (the same guide); CPUID states each size by itself",
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
            "L1: 64 entries, fully associative, for 4K and for 2M",
            "CPUID 8000_0005h of 0A60F12 (Raphael) and 0A10F11 (Genoa): EAX and EBX FF48FF40h",
        ),
        published(
            "L2: 512 entries for 4K and for 2M",
            "CPUID 8000_0006h of the same: EAX 5C002200h, EBX 6C004200h; Chips and Cheese count 512 too",
        ),
        ZEN_SHARED,
        ZEN_WAYS,
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
            "L1: 64 entries, fully associative, for 4K and for 2M",
            "CPUID 8000_0005h of 0B40F40 (Granite Ridge) and 0B00F21 (Turin): EAX and EBX FF60FF40h",
        ),
        published(
            "L2: 2048 entries for 4K and for 2M",
            "CPUID 8000_0006h of the same: EAX 40802040h, EBX 60804040h: 64 each, in units of 32, as \
             8000_0021h EAX bit 14 says",
        ),
        ZEN_SHARED,
        ZEN_WAYS,
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
            "L1: 256 entries for 4K, 32 for 2M/4M, 8 ways each",
            "CPUID leaf 18h of 0806F8 (Sapphire Rapids) and 090672 (Alder Lake): subleaves 1 and 2",
        ),
        published(
            "L2: 2048 entries, 16 ways for 4K, shared with data",
            "subleaves 7 and 8 of the same: two arrays of 128 sets of 8 ways, both for 4K",
        ),
        assumed(
            "L2: 16 ways also for 2M",
            "by CPUID 2M goes into one of the two arrays, 1024 entries of 8 ways, and 1G into the \
             other; no program here fills either with 2M pages",
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
        assumed(
            "L1: 48 entries, fully associative; 4K, 16K, 64K and 2M",
            "so it is in Cortex-A76, of the same line (Technical Reference Manual 100798, A5.2.1); the \
             manual of Neoverse V2 (102375) was not at hand",
        ),
        assumed(
            "L2: 2048 entries, 8 ways, shared with data",
            "as reviews of the core have it; the manual was not at hand",
        ),
        assumed(
            "no coalescing beyond the contiguous bit",
            "its L2 may hold four contiguous pages in an entry, as Cortex-A76 does (100798, A6.6); the \
             conditions are not public",
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
            "L1: 10 entries, fully associative (instruction micro TLB)",
            "ARM Cortex-A53 MPCore Processor Technical Reference Manual (DDI 0500), 5.1 and 5.2.1",
        ),
        published(
            "L2: 512 entries, 4 ways, every block size but 1G, shared with data",
            "the same manual, 5.2.2",
        ),
        assumed(
            "the micro TLB holds 4K, 64K and 2M",
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
        assumed(
            "L1: 48 entries, fully associative; 4K, 64K and 1M, so a 2M block is held in halves",
            "so it is in Cortex-A57, the core before it (DDI 0488, 5.2.1), and so encyclopedias have it \
             of Cortex-A72; that section of its own manual was not at hand",
        ),
        published(
            "L2: 1024 entries, 4 ways; 4K, 64K and 2M among others, shared with data",
            "ARM Cortex-A72 MPCore Processor Technical Reference Manual (100095), 5.2.3",
        ),
    ],
};

impl Core {
    /// Every core that the command knows by name.
    pub const ALL: [&'static Core; 6] = [
        &ZEN4,
        &ZEN5,
        &GOLDEN_COVE,
        &NEOVERSE_V2,
        &CORTEX_A53,
        &CORTEX_A72,
    ];

    /// The core with that name.
    pub fn named(name: &str) -> Option<&'static Core> {
        Self::ALL.into_iter().find(|core| core.name == name)
    }

    /// The largest block that one entry could map: the PMD leaf; a contpte block, which Linux marks
    /// wherever an aligned one lies in one folio and one mapping (arm64, `contpte.c`, since 6.9);
    /// the block that the core itself coalesces; otherwise the base page.
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
