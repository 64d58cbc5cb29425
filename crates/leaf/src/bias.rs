//! Load biases, as far as they are known before the program runs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ability::{Ability, ability};
use crate::class::Class;
use crate::filesystem::Filesystem;
use crate::geometry::{Geometry, Leaf};
use crate::kernel::Kernel;
use crate::rule::Topic;
use crate::segment::Segment;

/// How an ELF image is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    /// ET_EXEC: the load bias is zero.
    Executable,
    /// ET_DYN with an interpreter, placed by the kernel.
    Pie,
    /// ET_DYN without an interpreter, placed by the kernel. The dynamic loader itself is one.
    StaticPie,
    /// ET_DYN placed by the dynamic loader through mmap.
    SharedObject,
}

/// The known part of a load bias: `bias ≡ residue (mod align)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Bias {
    /// The modulus. It is the base page if no larger alignment is promised.
    pub align: Leaf,
    /// The residue, in bytes, below `align`.
    pub residue: u64,
}

impl Bias {
    /// The bias of an ET_EXEC image: zero, for any modulus.
    pub const ZERO: Bias = Bias {
        align: MAX_ALIGN,
        residue: 0,
    };

    /// A bias that is a multiple of `align`, and of no larger alignment.
    pub const fn aligned(align: Leaf) -> Bias {
        Bias { align, residue: 0 }
    }
}

/// The largest modulus a [`Leaf`] holds.
const MAX_ALIGN: Leaf = match Leaf::from_bytes(1 << 47) {
    Some(leaf) => leaf,
    None => Leaf::M512,
};

/// The placer of load addresses, with its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loader {
    /// The kernel, which executes programs and maps files.
    pub kernel: Kernel,
    /// The class of the program. The kernel's mmap aligns nothing in processes of 32 bits
    /// (`__thp_get_unmapped_area()`, mm/huge_memory.c).
    pub class: Class,
    /// The filesystem of the file, if known. Its mmap may align to the PMD size.
    pub filesystem: Filesystem,
    /// Whether the dynamic loader places shared objects by their largest p_align
    /// (glibc since 2.35, bug 28676; musl does not).
    pub dl_honours_align: bool,
}

impl Loader {
    /// The bias that this loader promises for an image with these PT_LOADs.
    pub fn bias(&self, kind: ObjectKind, segments: &[Segment], geometry: &Geometry) -> Bias {
        let page = geometry.page;
        let p_align = Bias::aligned(image_align(segments).max(page));
        let has =
            |topic| ability(topic, self.filesystem, self.kernel, geometry.pmd) == Ability::Has;
        match kind {
            ObjectKind::Executable => Bias::ZERO,
            ObjectKind::Pie if has(Topic::PieAlignment) => p_align,
            ObjectKind::StaticPie if has(Topic::StaticPieAlignment) => p_align,
            // Above the base page, glibc reserves anonymous space and picks the address itself, so
            // the filesystem's own alignment does not matter.
            ObjectKind::SharedObject if self.dl_honours_align && p_align.align > page => p_align,
            ObjectKind::SharedObject
                if self.class == Class::Bits64 && has(Topic::MmapAlignment) =>
            {
                mmap_bias(segments, geometry).unwrap_or(Bias::aligned(page))
            }
            _ => Bias::aligned(page),
        }
    }
}

/// The largest p_align of the image: 1 if none is given, and at most the largest modulus.
pub(crate) fn image_align(segments: &[Segment]) -> Leaf {
    segments
        .iter()
        .map(|segment| Leaf::from_bytes(segment.align.max(1)).unwrap_or(MAX_ALIGN))
        .max()
        .unwrap_or(Leaf::K4)
}

/// The dynamic loader maps the whole image by one mmap of its first PT_LOAD. The kernel makes the
/// address and file offset of that mapping congruent modulo the PMD size if the length holds an
/// aligned window (`__thp_get_unmapped_area()`, mm/huge_memory.c).
fn mmap_bias(segments: &[Segment], geometry: &Geometry) -> Option<Bias> {
    let first = segments.first()?;
    let start = geometry.page.align_down(first.vaddr);
    let end = segments.iter().map(|segment| segment.memory().end).max()?;
    let offset = geometry.page.align_down(first.offset);
    let offset_end = offset.checked_add(geometry.page.align_up(end).checked_sub(start)?)?;
    let window = geometry.pmd.align_up(offset);
    if offset_end.saturating_sub(window) < geometry.pmd.bytes() {
        return None;
    }
    Some(Bias {
        align: geometry.pmd,
        residue: geometry.pmd.offset_in(offset.wrapping_sub(start)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Version;
    use crate::segment::Perms;

    const RX: Perms = Perms {
        read: true,
        write: false,
        exec: true,
    };

    fn segment(vaddr: u64, offset: u64, size: u64, align: u64) -> Segment {
        Segment::new(vaddr, offset, size, size, align, RX).unwrap()
    }

    fn loader(kernel: &str, filesystem: Filesystem, dl_honours_align: bool) -> Loader {
        Loader {
            kernel: kernel.parse::<Version>().unwrap().into(),
            class: Class::Bits64,
            filesystem,
            dl_honours_align,
        }
    }

    #[test]
    fn pie_follows_p_align_since_5_10() {
        let segments = [segment(0, 0, 8 << 20, 2 << 20)];
        let bias = |kernel| {
            loader(kernel, Filesystem::Ext4, true).bias(
                ObjectKind::Pie,
                &segments,
                &Geometry::X86_64,
            )
        };
        assert_eq!(bias("5.9"), Bias::aligned(Leaf::K4));
        assert_eq!(bias("6.1"), Bias::aligned(Leaf::M2));
    }

    #[test]
    fn an_alignment_beyond_every_leaf_is_one_all_the_same() {
        let segments = [segment(0, 0, 8 << 20, 1 << 63)];
        let pie = loader("6.18", Filesystem::Ext4, true).bias(
            ObjectKind::Pie,
            &segments,
            &Geometry::X86_64,
        );
        assert_eq!(pie, Bias::aligned(MAX_ALIGN));
    }

    #[test]
    fn shared_objects_of_a_window_are_aligned_by_mmap_where_the_filesystem_asks() {
        let bias = |size, fs| {
            loader("6.18", fs, true).bias(
                ObjectKind::SharedObject,
                &[segment(0, 0, size, 4096)],
                &Geometry::X86_64,
            )
        };
        assert_eq!(bias(8 << 20, Filesystem::Ext4), Bias::aligned(Leaf::M2));
        assert_eq!(bias(1 << 20, Filesystem::Ext4), Bias::aligned(Leaf::K4));
        assert_eq!(bias(8 << 20, Filesystem::Overlay), Bias::aligned(Leaf::K4));
        let narrow = Loader {
            class: Class::Bits32,
            ..loader("6.18", Filesystem::Ext4, true)
        };
        let segments = [segment(0, 0, 8 << 20, 4096)];
        let narrow = narrow.bias(ObjectKind::SharedObject, &segments, &Geometry::X86_64);
        assert_eq!(narrow, Bias::aligned(Leaf::K4));
    }

    #[test]
    fn a_first_segment_that_is_not_congruent_shifts_the_bias() {
        let segments = [segment(0x3000, 0x1000, 8 << 20, 4096)];
        let bias = loader("6.18", Filesystem::Xfs, true).bias(
            ObjectKind::SharedObject,
            &segments,
            &Geometry::X86_64,
        );
        assert_eq!(bias.residue, (2 << 20) - 0x2000);
    }

    #[test]
    fn glibc_takes_p_align_over_the_kernel() {
        let segments = [segment(0, 0, 8 << 20, 0x10000)];
        let loader = loader("6.18", Filesystem::Ext4, true);
        let bias = loader.bias(ObjectKind::SharedObject, &segments, &Geometry::X86_64);
        assert_eq!(bias, Bias::aligned(Leaf::K64));
    }
}
