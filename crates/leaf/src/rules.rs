//! The rules, each with the kernels it was measured on. Written by `hugetext-lab docs` (make -C lab rules)
//! from lab/crates/lab/rules.toml and from the record in lab/records/matrix.jsonl. Edit the table, not this file.

use crate::condition::Condition;
use crate::filesystem::Filesystem;
use crate::geometry::Leaf;
use crate::kernel::Version;
use crate::rule::{Rule, Topic};

/// Every rule known.
pub const RULES: &[Rule] = &[
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::PieAlignment,
        filesystem: None,
        since: Version::new(5, 10),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/binfmt_elf.c, maximum_alignment()",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::StaticPieAlignment,
        filesystem: None,
        since: Version::new(6, 1),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/binfmt_elf.c, load_elf_binary(): a static PIE is placed by maximum_alignment() too",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Ext4),
        since: Version::new(5, 18),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/ext4/file.c, get_unmapped_area = thp_get_unmapped_area",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Xfs),
        since: Version::new(5, 18),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/xfs/xfs_file.c, get_unmapped_area = thp_get_unmapped_area",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Btrfs),
        since: Version::new(6, 1),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/btrfs/file.c, get_unmapped_area = thp_get_unmapped_area",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::Erofs),
        since: Version::new(6, 1),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/erofs/data.c, get_unmapped_area = thp_get_unmapped_area",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::MmapAlignment,
        filesystem: Some(Filesystem::HugeTmpfs),
        since: Version::new(4, 8),
        until: None,
        condition: Some(Condition::HugeShmem),
        requires: None,
        largest: Leaf::M512,
        source: "mm/shmem.c, shmem_get_unmapped_area()",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::Xfs),
        since: Version::new(5, 18),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/xfs/xfs_icache.c, mapping_set_large_folios()",
    },
    // Record: no on 6.12.117+deb13-cloud-amd64, yes on 6.16.12+deb13-cloud-amd64.
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::Ext4),
        since: Version::new(6, 16),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M2,
        source: "fs/ext4/inode.c, ext4_set_inode_mapping_order()",
    },
    // Record: no on 6.1.0-56-cloud-amd64, yes on 6.12.117+deb13-cloud-amd64.
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::Erofs),
        since: Version::new(6, 12),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "fs/erofs/inode.c, mapping_set_large_folios()",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::LargeFolios,
        filesystem: Some(Filesystem::HugeTmpfs),
        since: Version::new(4, 8),
        until: None,
        condition: Some(Condition::HugeShmem),
        requires: None,
        largest: Leaf::M512,
        source: "mm/shmem.c, shmem_huge_global_enabled(): huge=always, unless 'deny'",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::HugeReadahead,
        filesystem: None,
        since: Version::new(5, 18),
        until: None,
        condition: None,
        requires: Some(Topic::LargeFolios),
        largest: Leaf::M2,
        source: "mm/filemap.c, do_sync_mmap_readahead(): VM_HUGEPAGE",
    },
    // Record: yes on 6.1.0-56-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::Collapse,
        filesystem: Some(Filesystem::Tmpfs),
        since: Version::new(6, 1),
        until: None,
        condition: Some(Condition::HugeShmem),
        requires: None,
        largest: Leaf::M512,
        source: "mm/shmem.c, shmem_huge_global_enabled(): shmem_huge_force, unless 'deny'",
    },
    // Record: yes on 6.16.12+deb13-cloud-amd64, the oldest measured.
    Rule {
        topic: Topic::Collapse,
        filesystem: Some(Filesystem::HugeTmpfs),
        since: Version::new(6, 1),
        until: None,
        condition: Some(Condition::HugeShmem),
        requires: None,
        largest: Leaf::M512,
        source: "mm/shmem.c, shmem_huge_global_enabled(): shmem_huge_force, unless 'deny'",
    },
    // Record: not measured.
    Rule {
        topic: Topic::Collapse,
        filesystem: None,
        since: Version::new(6, 1),
        until: Some(Version::new(7, 2)),
        condition: Some(Condition::ReadOnlyThp),
        requires: None,
        largest: Leaf::M512,
        source: "mm/huge_memory.c, file_thp_enabled()",
    },
    // Record: no on 7.1.13+deb13-cloud-amd64, yes on 7.2.12+deb13-cloud-amd64.
    Rule {
        topic: Topic::Collapse,
        filesystem: None,
        since: Version::new(7, 2),
        until: None,
        condition: None,
        requires: Some(Topic::LargeFolios),
        largest: Leaf::M512,
        source: "mm/huge_memory.c, file_thp_enabled(): mapping_pmd_folio_support()",
    },
    // Record: no on 6.16.12+deb13-cloud-amd64, yes on 6.17.13+deb13-cloud-amd64.
    Rule {
        topic: Topic::MprotectBatching,
        filesystem: None,
        since: Version::new(6, 17),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "mm/mprotect.c, change_pte_range(): batches by folio",
    },
    // Record: not measured.
    Rule {
        topic: Topic::LeafDenial,
        filesystem: None,
        since: Version::new(6, 12),
        until: None,
        condition: None,
        requires: None,
        largest: Leaf::M512,
        source: "mm/memory.c, do_set_pmd(): thp_disabled_by_hw(), vma_thp_disabled(); commit 2b0f922323cc, in 6.6 and 6.11 of November 2024 too",
    },
];
