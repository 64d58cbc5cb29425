//! The facts of the machine that `warm` depends on.

use hugetext_host::{Mounts, Paging};
use hugetext_leaf::{
    Bias, Cause, Filesystem, Kernel, Leaf, LeafKind, Topic, large_folio_obstacle, rule,
};

use crate::failure::Failure;
use crate::program::Program;

/// The page sizes, kernel and filesystems that decide which rungs work.
pub(crate) struct Ground {
    paging: Paging,
    pub(crate) kernel: Kernel,
    /// The PMD leaf.
    pub(crate) leaf: Leaf,
    pub(crate) mounts: Mounts,
}

impl Ground {
    /// The facts of this machine; an error if huge pages are not available at all.
    pub(crate) fn this() -> Result<Ground, Failure> {
        Ground::of(Paging::this())
    }

    /// As [`Ground::this`], from facts of this machine that were read before.
    pub(crate) fn of(paging: Paging) -> Result<Ground, Failure> {
        Ok(Ground {
            kernel: paging
                .kernel
                .ok_or_else(|| Failure::no_version(&paging.release))?,
            leaf: paging
                .pmd
                .ok_or_else(|| Failure::no_huge_pages(&paging.release))?,
            mounts: Mounts::read().map_err(|error| Failure::mounts(&error))?,
            paging,
        })
    }

    /// The base page.
    pub(crate) fn page(&self) -> Leaf {
        self.paging.page
    }

    /// The leaves to warm for, largest first.
    pub(super) fn leaves(&self) -> Vec<Leaf> {
        match self.paging.geometry {
            Some(geometry) => geometry.leaves().map(|(_, leaf)| leaf).collect(),
            None => vec![self.leaf],
        }
    }

    /// Why the page cache of the filesystem `pages` cannot hold folios of `leaf`'s order.
    pub(crate) fn obstacle(&self, pages: Filesystem, leaf: Leaf) -> Option<Cause> {
        let kind = match leaf == self.leaf {
            true => LeafKind::Pmd,
            false => LeafKind::Contpte,
        };
        large_folio_obstacle(pages, self.kernel, kind, leaf)
    }

    /// Whether MADV_COLLAPSE is worth a try on `pages`.
    pub(super) fn collapses(&self, pages: Filesystem) -> bool {
        let kernel = self.kernel;
        kernel.collapses_read_only_files() || rule(Topic::Collapse, pages, kernel.version).is_some()
    }

    /// What is known of a program's load bias here.
    pub(crate) fn bias(&self, program: &Program) -> Result<Bias, Failure> {
        let filesystem = program.filesystem(&self.mounts)?;
        Ok(match self.paging.geometry {
            Some(geometry) => program.loader(self.kernel, filesystem).bias(
                program.image.kind,
                &program.image.segments,
                &geometry,
            ),
            None => Bias::aligned(self.leaf),
        })
    }
}
