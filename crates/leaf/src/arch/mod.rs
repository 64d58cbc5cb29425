//! The architectures whose page tables this project knows, one file each. A new one is its file and
//! its line in [`Architecture::ALL`].

mod aarch64;
mod riscv64;
mod x86_64;

use crate::geometry::{Geometry, Leaf};

/// An architecture, with the page sizes of its kernels.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its name for uname(2), Rust and QEMU.
    pub name: &'static str,
    /// The geometries of its kernels. The first has the smallest base page; it is assumed where
    /// nothing else is known.
    pub geometries: &'static [Geometry],
}

impl Architecture {
    /// Every architecture that this project knows.
    pub const ALL: [&Architecture; 3] = [&x86_64::THIS, &aarch64::THIS, &riscv64::THIS];

    /// The architecture with this name; `None` if this project does not know it.
    pub fn named(name: &str) -> Option<&'static Architecture> {
        Self::ALL.into_iter().find(|known| known.name == name)
    }

    /// The geometry of its kernels with this base page.
    pub fn with_page(&self, page: Leaf) -> Option<Geometry> {
        let mut geometries = self.geometries.iter().copied();
        geometries.find(|geometry| geometry.page == page)
    }
}

impl Geometry {
    /// Every geometry that the command line can name.
    pub fn all() -> impl Iterator<Item = Geometry> {
        let geometries = |known: &'static Architecture| known.geometries.iter().copied();
        Architecture::ALL.into_iter().flat_map(geometries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_base_page_comes_first() {
        for known in Architecture::ALL {
            let pages: Vec<Leaf> = known.geometries.iter().map(|g| g.page).collect();
            assert!(pages.is_sorted() && !pages.is_empty(), "{}", known.name);
            assert_eq!(known.with_page(pages[0]), Some(known.geometries[0]));
        }
        assert_eq!(Architecture::named("s390x"), None);
    }
}
