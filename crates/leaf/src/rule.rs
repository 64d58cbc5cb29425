//! The form of a rule: which kernels can do something for program text.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::filesystem::Filesystem;
use crate::geometry::Leaf;
use crate::kernel::Version;

/// An ability of a kernel that concerns program text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The ELF loader places a PIE by its largest p_align.
    PieAlignment,
    /// The ELF loader places a static PIE by its largest p_align.
    StaticPieAlignment,
    /// mmap of a file makes address and offset congruent modulo the PMD size.
    MmapAlignment,
    /// The page cache of this filesystem holds folios of PMD order.
    LargeFolios,
    /// A fault in a mapping with MADV_HUGEPAGE reads a PMD-order folio.
    HugeReadahead,
    /// MADV_COLLAPSE makes PMD leaves of mapped file text.
    Collapse,
    /// mprotect() handles the PTEs of a large folio in one batch.
    MprotectBatching,
    /// No leaf maps a file where huge pages are disabled for the process or the mapping.
    LeafDenial,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 8] = [
        Topic::PieAlignment,
        Topic::StaticPieAlignment,
        Topic::MmapAlignment,
        Topic::LargeFolios,
        Topic::HugeReadahead,
        Topic::Collapse,
        Topic::MprotectBatching,
        Topic::LeafDenial,
    ];
}

/// The kernels that have an ability on a filesystem. Several rules may concern the same ability; one
/// that holds is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The ability.
    pub topic: Topic,
    /// The filesystem it concerns; `None` for all.
    pub filesystem: Option<Filesystem>,
    /// The first version it holds in.
    pub since: Version,
    /// The first version that it no longer holds in; `None` if it holds to this day.
    pub until: Option<Version>,
    /// What else must be true of the kernel.
    pub condition: Option<Condition>,
    /// The ability that the kernel must also have on the filesystem.
    pub requires: Option<Topic>,
    /// The largest leaf it holds for.
    pub largest: Leaf,
    /// The place in the kernel source.
    pub source: &'static str,
}

impl Rule {
    /// Whether the rule concerns an ability on a filesystem, for a leaf.
    pub fn concerns(&self, topic: Topic, filesystem: Filesystem, leaf: Leaf) -> bool {
        self.topic == topic
            && self.filesystem.is_none_or(|named| named == filesystem)
            && leaf <= self.largest
    }

    /// Whether it is about kernels of this version.
    pub(crate) fn covers(&self, version: Version) -> bool {
        self.since <= version && self.until.is_none_or(|until| version < until)
    }
}
