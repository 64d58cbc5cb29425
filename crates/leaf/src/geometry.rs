//! Leaf sizes of each architecture and base-page size.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A power-of-two size or alignment in bytes, held as its exponent (12 for 4 KiB, 21 for 2 MiB).
///
/// The exponent is below 48, and every address and offset this project computes with is below
/// [`crate::LIMIT`], so rounding up to a leaf cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf(u8);

impl Leaf {
    /// 4 KiB: the base page of x86-64 and of most arm64 kernels.
    pub const K4: Leaf = Leaf(12);
    /// 16 KiB: a base page of arm64.
    pub const K16: Leaf = Leaf(14);
    /// 64 KiB: a base page of arm64, or the contpte block of its 4 KiB pages.
    pub const K64: Leaf = Leaf(16);
    /// 1 MiB: the PMD leaf of s390x.
    pub const M1: Leaf = Leaf(20);
    /// 2 MiB: the PMD leaf of 4 KiB pages, and the contpte block of 16 KiB and 64 KiB pages.
    pub const M2: Leaf = Leaf(21);
    /// 16 MiB: the PMD leaf of POWER's hash MMU.
    pub const M16: Leaf = Leaf(24);
    /// 32 MiB: the PMD leaf of 16 KiB pages.
    pub const M32: Leaf = Leaf(25);
    /// 512 MiB: the PMD leaf of 64 KiB pages.
    pub const M512: Leaf = Leaf(29);

    /// The leaf of `bytes`, if `bytes` is a power of two from 1 to 2^47.
    pub const fn from_bytes(bytes: u64) -> Option<Leaf> {
        if bytes.is_power_of_two() && bytes.trailing_zeros() < 48 {
            Some(Leaf(bytes.trailing_zeros() as u8))
        } else {
            None
        }
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// Folio order of this leaf over base pages of `page`; 0 if it is not larger.
    pub const fn order(self, page: Leaf) -> u32 {
        self.0.saturating_sub(page.0) as u32
    }

    /// The next smaller size: the largest folio that no leaf of this size maps.
    pub const fn half(self) -> Leaf {
        Leaf(self.0.saturating_sub(1))
    }

    /// `value` modulo the leaf.
    pub const fn offset_in(self, value: u64) -> u64 {
        value & (self.bytes() - 1)
    }

    /// Whether `value` is a multiple of the leaf.
    pub const fn is_aligned(self, value: u64) -> bool {
        self.offset_in(value) == 0
    }

    /// The largest multiple of the leaf that is at most `value`.
    pub const fn align_down(self, value: u64) -> u64 {
        value - self.offset_in(value)
    }

    /// The smallest multiple of the leaf that is at least `value`; saturates at the largest one
    /// that fits (reached only by values above [`crate::LIMIT`]).
    pub const fn align_up(self, value: u64) -> u64 {
        match value.checked_add(self.bytes() - 1) {
            Some(sum) => self.align_down(sum),
            None => self.align_down(u64::MAX),
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            30.. => write!(f, "{}G", 1u64 << (self.0 - 30)),
            20.. => write!(f, "{}M", 1u64 << (self.0 - 20)),
            10.. => write!(f, "{}K", 1u64 << (self.0 - 10)),
            _ => write!(f, "{}", self.bytes()),
        }
    }
}

impl Serialize for Leaf {
    /// As its size in bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.bytes())
    }
}

/// The hardware mechanism of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeafKind {
    /// A block of contiguous PTEs that share one TLB entry (arm64 contiguous bit, riscv Svnapot).
    Contpte,
    /// One entry of the page middle directory.
    Pmd,
}

/// The leaf sizes of one architecture and base-page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The name used on the command line.
    pub name: &'static str,
    /// The base page.
    pub page: Leaf,
    /// The contpte block, if the architecture has one that Linux uses for file folios.
    pub contpte: Option<Leaf>,
    /// The PMD leaf.
    pub pmd: Leaf,
}

impl Geometry {
    pub(crate) const fn new(
        name: &'static str,
        page: Leaf,
        contpte: Option<Leaf>,
        pmd: Leaf,
    ) -> Self {
        Geometry {
            name,
            page,
            contpte,
            pmd,
        }
    }

    /// The geometry of a running kernel of an architecture that this project does not know: its base
    /// page and its PMD leaf, as the kernel gives them. Nothing is known of blocks in between.
    pub const fn native(page: Leaf, pmd: Leaf) -> Geometry {
        Geometry::new("native", page, None, pmd)
    }

    /// The names that the command line knows, with commas between them.
    pub fn names() -> String {
        let names: Vec<&str> = Self::all().map(|geometry| geometry.name).collect();
        names.join(", ")
    }

    /// The leaves above the base page, largest first.
    pub fn leaves(&self) -> impl Iterator<Item = (LeafKind, Leaf)> + use<> {
        let contpte = self.contpte.map(|leaf| (LeafKind::Contpte, leaf));
        std::iter::once((LeafKind::Pmd, self.pmd)).chain(contpte)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl Serialize for Geometry {
    /// As its name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// A geometry name that is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown geometry '{0}'; the known ones are {names}", names = Geometry::names())]
pub struct ParseGeometryError(String);

impl FromStr for Geometry {
    type Err = ParseGeometryError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|geometry| geometry.name == name)
            .ok_or_else(|| ParseGeometryError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_sizes_are_those_of_the_hardware() {
        let orders = |g: Geometry| g.leaves().map(|(_, l)| l.order(g.page)).collect::<Vec<_>>();
        assert_eq!(orders(Geometry::X86_64), [9]);
        assert_eq!(orders(Geometry::ARM64_4K), [9, 4]);
        assert_eq!(orders(Geometry::ARM64_16K), [11, 7]);
        assert_eq!(orders(Geometry::ARM64_64K), [13, 5]);
        assert_eq!(orders(Geometry::RISCV64), [9]);
        assert_eq!(orders(Geometry::S390X), [8]);
        assert_eq!(orders(Geometry::PPC64_64K), [5]);
        assert_eq!(orders(Geometry::PPC64_64K_HASH), [8]);
        assert_eq!(orders(Geometry::MIPS64_16K), [11]);
        assert_eq!(orders(Geometry::native(Leaf::K16, Leaf::M32)), [11]);
    }

    #[test]
    fn names_round_trip() {
        for geometry in Geometry::all() {
            assert_eq!(geometry.to_string().parse(), Ok(geometry));
        }
        assert!("x86".parse::<Geometry>().is_err());
    }

    #[test]
    fn align_up_saturates() {
        assert_eq!(
            Leaf::M2.align_up(u64::MAX),
            u64::MAX - (Leaf::M2.bytes() - 1)
        );
        assert_eq!(Leaf::from_bytes(3), None);
        assert_eq!(Leaf::from_bytes(0), None);
        assert_eq!(Leaf::from_bytes(1 << 50), None);
    }
}
