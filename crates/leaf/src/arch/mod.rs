//! The architectures whose page tables this project knows, one file each. A new one is its file and
//! its line in [`Architecture::ALL`].

mod aarch64;
mod architecture;
mod arm;
mod mips64;
mod powerpc64;
mod riscv64;
mod s390x;
mod x86_64;

use crate::geometry::{Geometry, Leaf};
pub use architecture::Architecture;

impl Architecture {
    /// Every architecture that this project knows.
    pub const ALL: [&Architecture; 7] = [
        &x86_64::THIS,
        &aarch64::THIS,
        &riscv64::THIS,
        &arm::THIS,
        &mips64::THIS,
        &powerpc64::THIS,
        &s390x::THIS,
    ];

    /// The architecture with this name; `None` if this project does not know it.
    pub fn named(name: &str) -> Option<&'static Architecture> {
        Self::ALL.into_iter().find(|known| known.name == name)
    }

    /// The geometry of its kernels with this base page, and with this PMD leaf if it is known; `None`
    /// if there is none or more than one.
    pub fn with(&self, page: Leaf, pmd: Option<Leaf>) -> Option<Geometry> {
        let geometries = self.geometries.iter().copied();
        let mut fitting =
            geometries.filter(|known| known.page == page && pmd.is_none_or(|pmd| known.pmd == pmd));
        fitting.next().filter(|_| fitting.next().is_none())
    }
}

/// Rust's name of a kernel's architecture, from what uname(2) says of the machine; `None` for one that
/// this project does not know. A kernel of 64 bits that shows itself to a program as one of 32
/// (personality(2), PER_LINUX32) is that of 32 bits, except on arm64, which says `armv8l`.
pub fn architecture_of(machine: &str) -> Option<&'static str> {
    const SAME: [&str; 9] = [
        "x86_64",
        "aarch64",
        "riscv64",
        "loongarch64",
        "s390x",
        "mips",
        "mips64",
        "sparc64",
        "riscv32",
    ];
    Some(match machine {
        "i386" | "i486" | "i586" | "i686" => "x86",
        "aarch64_be" | "armv8l" | "armv8b" => "aarch64",
        "ppc64" | "ppc64le" => "powerpc64",
        "ppc" => "powerpc",
        arm if arm.starts_with("arm") => "arm",
        other => SAME.into_iter().find(|same| *same == other)?,
    })
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
            let first = known.geometries[0];
            assert_eq!(known.with(first.page, Some(first.pmd)), Some(first));
        }
        assert_eq!(Architecture::named("sparc64"), None);
    }

    /// The MMU of a POWER kernel shows in its PMD leaf alone.
    #[test]
    fn what_could_be_two_geometries_is_neither() {
        let power = Architecture::named("powerpc64").unwrap();
        assert_eq!(power.with(Leaf::K64, None), None);
        let with = |pmd| power.with(Leaf::K64, Some(pmd));
        assert_eq!(with(Leaf::M2), Some(Geometry::PPC64_64K));
        assert_eq!(with(Leaf::M16), Some(Geometry::PPC64_64K_HASH));
        assert_eq!(with(Leaf::M32), None);
        assert_eq!(power.with(Leaf::K4, None), Some(Geometry::PPC64_4K));
    }

    #[test]
    fn uname_has_names_of_its_own() {
        let names = [
            ("i686", Some("x86")),
            ("armv7l", Some("arm")),
            ("armv8l", Some("aarch64")),
            ("ppc64le", Some("powerpc64")),
            ("s390x", Some("s390x")),
            ("vax", None),
        ];
        for (machine, name) in names {
            assert_eq!(architecture_of(machine), name, "{machine}");
        }
    }
}
