//! The rules, each with the kernels it was measured on. Written by `make lab-docs` from the record
//! in docs/matrix.jsonl: `since` and `source` are edited here by hand, the rest is not, and a
//! version that the record contradicts is moved.

use crate::geometry::Leaf;
use crate::kernel::{Filesystem, Rule, Topic, Version};

/// Every rule known. The first that matches a topic and filesystem holds.
pub const RULES: &[Rule] = &[
    Rule {
        topic: Topic::PieAlignment,
        filesystem: None,
        since: Version::new(5, 10),
        largest: Leaf::M512,
        source: "fs/binfmt_elf.c, maximum_alignment()",
        evidence: "",
    },
    Rule {
        topic: Topic::StaticPieAlignment,
        filesystem: None,
        since: Version::new(6, 10),
        largest: Leaf::M512,
        source: "fs/binfmt_elf.c, static PIE honours PT_LOAD alignment",
        evidence: "",
    },
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Ext4),
        since: Version::new(5, 18),
        largest: Leaf::M512,
        source: "mm/huge_memory.c, thp_get_unmapped_area()",
        evidence: "",
    },
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Xfs),
        since: Version::new(5, 18),
        largest: Leaf::M512,
        source: "mm/huge_memory.c, thp_get_unmapped_area()",
        evidence: "",
    },
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Btrfs),
        since: Version::new(6, 1),
        largest: Leaf::M512,
        source: "fs/btrfs/file.c, get_unmapped_area",
        evidence: "",
    },
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::HugeTmpfs),
        since: Version::new(4, 8),
        largest: Leaf::M512,
        source: "mm/shmem.c, shmem_get_unmapped_area()",
        evidence: "",
    },
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::Xfs),
        since: Version::new(5, 18),
        largest: Leaf::M512,
        source: "fs/xfs, mapping_set_large_folios()",
        evidence: "",
    },
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::Ext4),
        since: Version::new(6, 16),
        largest: Leaf::M512,
        source: "fs/ext4, large folios for regular files",
        evidence: "",
    },
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::HugeTmpfs),
        since: Version::new(4, 8),
        largest: Leaf::M512,
        source: "mm/shmem.c, huge=always",
        evidence: "",
    },
    Rule {
        topic: Topic::HugeReadahead,
        filesystem: None,
        since: Version::new(5, 18),
        largest: Leaf::M512,
        source: "mm/filemap.c, do_sync_mmap_readahead()",
        evidence: "",
    },
    Rule {
        topic: Topic::Collapse,
        filesystem: None,
        since: Version::new(7, 2),
        largest: Leaf::M512,
        source: "mm/khugepaged.c, measured on 7.2",
        evidence: "",
    },
    Rule {
        topic: Topic::MprotectBatching,
        filesystem: None,
        since: Version::new(6, 17),
        largest: Leaf::M512,
        source: "mm/mprotect.c, batching by folio",
        evidence: "",
    },
];
