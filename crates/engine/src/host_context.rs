//! The running machine, as far as the layout and the page cache of every program depend on it.

use hugetext_host::{Mounts, Paging};
use hugetext_leaf::{Cause, Filesystem, Geometry, Kernel, Leaf, LeafKind, collapse, large_folios};

use crate::error::Error;
use crate::packages::Packages;

/// The kernel, page sizes and mounts of this machine, read at one time. Reading them takes a
/// millisecond or less.
#[derive(Debug)]
pub struct HostContext {
    /// The release string of uname.
    pub release: String,
    /// The kernel for the rules.
    pub kernel: Kernel,
    /// The base page.
    pub page: Leaf,
    /// The largest leaf that this kernel maps files by: the PMD leaf. Without transparent huge
    /// pages, it is the base page.
    pub leaf: Leaf,
    /// The leaf sizes of this architecture and base page, if they are known.
    pub geometry: Option<Geometry>,
    /// The mounts of this process's namespace.
    pub mounts: Mounts,
    /// Who knows the packages of files.
    pub(crate) packages: Packages,
}

impl HostContext {
    /// This machine; an error if it has no huge pages.
    pub fn with_huge_pages() -> Result<HostContext, Error> {
        let host = HostContext::read(None)?;
        if host.has_huge_pages() {
            Ok(host)
        } else {
            Err(Error::no_huge_pages(&host.release))
        }
    }

    /// This machine, whether it has huge pages or not, with `kernel` in place of its own if one is
    /// named.
    pub fn read(kernel: Option<Kernel>) -> Result<HostContext, Error> {
        let paging = Paging::this();
        let Some(kernel) = kernel.or(paging.kernel) else {
            return Err(Error::NoKernelVersion {
                release: paging.release,
            });
        };
        Ok(HostContext {
            release: paging.release,
            kernel,
            page: paging.page,
            leaf: paging.pmd.unwrap_or(paging.page),
            geometry: paging.geometry,
            mounts: Mounts::read().map_err(Error::Mounts)?,
            packages: Packages::here(),
        })
    }

    /// Whether the kernel has transparent huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.leaf > self.page
    }

    /// The leaves to warm for, largest first.
    pub fn leaves(&self) -> Vec<Leaf> {
        match self.geometry {
            Some(geometry) => geometry.leaves().map(|(_, leaf)| leaf).collect(),
            None => vec![self.leaf],
        }
    }

    /// Why the page cache of the filesystem `pages` cannot hold folios of the order of `leaf`.
    pub fn large_folio_obstacle(&self, pages: Filesystem, leaf: Leaf) -> Option<Cause> {
        let kind = if leaf == self.leaf {
            LeafKind::Pmd
        } else {
            LeafKind::Contpte
        };
        large_folios(pages, self.kernel, kind, leaf).doubt()
    }

    /// Whether MADV_COLLAPSE is worth a try on the filesystem `pages`.
    pub fn may_collapse(&self, pages: Filesystem) -> bool {
        collapse(pages, self.kernel, self.leaf).refusal().is_none()
    }
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Version;

    use super::*;

    /// The record: EINVAL on every kernel, and `promote` never tried.
    #[test]
    fn btrfs_is_not_asked_to_collapse() {
        let host = HostContext::read(Some(Version::new(7, 3).into())).unwrap();
        assert!(!host.may_collapse(Filesystem::Btrfs));
        assert!(host.may_collapse(Filesystem::Xfs));
        assert!(host.may_collapse(Filesystem::Overlay));
    }
}
