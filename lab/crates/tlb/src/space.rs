//! Virtual address spaces: the addresses of files, and the leaves that map them.
//!
//! The emulator places files by its own rules, so an executed page is identified by its file and
//! offset. Each layout then places the files again as a kernel would: one after another, each at an
//! address with the alignment that its huge windows need.

use hugetext_leaf::{LIMIT, Leaf, Span, Vma};

use crate::translation::Translation;

/// The first address for files without a fixed address: roughly the mmap region of x86-64 and
/// arm64. Only the order and the alignment matter.
const BASE: u64 = 0x7f00_0000_0000;

/// The possible addresses of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// At a load bias of zero (ET_EXEC).
    Fixed,
    /// At any base page.
    #[default]
    Anywhere,
    /// At a load bias that is `residue` modulo `to`, both in bytes.
    Aligned {
        /// The modulus.
        to: Leaf,
        /// The residue, below `to`.
        residue: u64,
    },
}

/// A file as a layout maps it. Addresses are those of its ELF image, without the load bias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Its possible addresses.
    pub placement: Placement,
    /// Its mappings.
    pub vmas: Vec<Vma>,
    /// Addresses that PMD leaves map: whole windows after the bias is added.
    pub huge: Vec<Span>,
    /// Addresses mapped from folios larger than a base page, with the largest block of them that is
    /// aligned in both virtual and physical addresses: the folio if address and file offset are
    /// congruent modulo its size, otherwise less.
    pub folios: Vec<(Span, Leaf)>,
}

impl Object {
    fn end(&self) -> u64 {
        let ends = self.vmas.iter().map(|vma| vma.addresses.end);
        ends.max().unwrap_or(0)
    }
}

/// The files of a program, each at its address.
#[derive(Debug)]
pub struct Space {
    /// Load bias and file.
    objects: Vec<(u64, Object)>,
    /// The lowest address of the next file.
    free: u64,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            objects: Vec::new(),
            free: BASE,
        }
    }
}

impl Space {
    /// Places the next file after the previous one.
    pub fn add(&mut self, object: Object) {
        let bias = match object.placement {
            Placement::Fixed => 0,
            Placement::Anywhere => self.free,
            Placement::Aligned { to, residue } => {
                self.free + to.offset_in(residue.wrapping_sub(self.free))
            }
        };
        if object.placement != Placement::Fixed {
            let end = bias.saturating_add(object.end()).min(LIMIT);
            self.free = Leaf::K4.align_up(end);
        }
        self.objects.push((bias, object));
    }

    /// How the page at `offset` of the `index`th file is mapped. If no mapping covers it, it is a
    /// base page at its own address.
    pub fn translate(&self, index: usize, offset: u64) -> Translation {
        let Some((bias, object)) = self.objects.get(index) else {
            return Translation::base_page(offset);
        };
        // A page at a boundary belongs to two mappings; code is in the executable one.
        let covering =
            |vma: &&Vma| vma.offset <= offset && offset - vma.offset < vma.addresses.len();
        let candidates = object.vmas.iter().filter(covering);
        let Some(vma) = candidates.max_by_key(|vma| vma.perms.exec) else {
            return Translation::base_page(bias.wrapping_add(offset));
        };
        let address = vma.addresses.start + (offset - vma.offset);
        let (leaf, run) = if object.huge.iter().any(|window| window.contains(address)) {
            (Leaf::M2, Leaf::M2)
        } else {
            let folio = object
                .folios
                .iter()
                .find(|(span, _)| span.contains(address));
            (
                Leaf::K4,
                run(
                    *bias,
                    vma,
                    address,
                    folio.map_or(Leaf::K4, |(_, block)| *block),
                ),
            )
        };
        Translation {
            address: bias + address,
            leaf,
            run,
        }
    }
}

/// The largest aligned block around `address`, at most `block`, that lies inside the mapping.
fn run(bias: u64, vma: &Vma, address: u64, block: Leaf) -> Leaf {
    let mapping = Span::new(bias + vma.addresses.start, bias + vma.addresses.end);
    let inside = |size: &Leaf| {
        let start = size.align_down(bias + address);
        mapping.start <= start && start + size.bytes() <= mapping.end
    };
    let sizes = (Leaf::K4.shift()..=block.shift()).rev();
    let sizes = sizes.filter_map(|shift| Leaf::from_bytes(1 << shift));
    sizes.filter(inside).max().unwrap_or(Leaf::K4)
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Perms;

    use super::*;

    const M: u64 = 1 << 20;

    fn aligned(residue: u64) -> Placement {
        let to = Leaf::M2;
        Placement::Aligned { to, residue }
    }

    fn text(start: u64, end: u64, offset: u64) -> Vma {
        let perms = Perms {
            read: true,
            write: false,
            exec: true,
        };
        Vma {
            addresses: Span::new(start, end),
            offset,
            perms,
        }
    }

    fn object(placement: Placement, vma: Vma) -> Object {
        Object {
            placement,
            vmas: vec![vma],
            ..Object::default()
        }
    }

    #[test]
    fn files_follow_each_other_and_keep_their_residue() {
        let mut space = Space::default();
        space.add(object(Placement::Anywhere, text(0x1000, 0x3000, 0x1000)));
        space.add(object(Placement::Anywhere, text(0, 5 * M, 0)));
        let huge = vec![Span::new(0, 4 * M)];
        space.add(Object {
            huge,
            ..object(aligned(0), text(0, 5 * M, 0))
        });
        space.add(object(aligned(0x3000), text(0, 5 * M, 0)));
        assert_eq!(space.translate(0, 0x1000).address, BASE + 0x1000);
        assert_eq!(space.translate(1, 0).address, BASE + 0x3000);
        let window = space.translate(2, 3 * M);
        assert_eq!((window.address, window.leaf), (BASE + 9 * M, Leaf::M2));
        assert_eq!(space.translate(2, 4 * M).leaf, Leaf::K4);
        assert_eq!(space.translate(3, 0).address, BASE + 12 * M + 0x3000);
    }

    #[test]
    fn a_fixed_file_keeps_its_addresses() {
        let mut space = Space::default();
        space.add(object(Placement::Fixed, text(0x401000, 0x500000, 0x1000)));
        assert_eq!(space.translate(0, 0x2000).address, 0x402000);
        space.add(object(Placement::Anywhere, text(0, M, 0)));
        assert_eq!(space.translate(1, 0).address, BASE);
    }

    #[test]
    fn a_run_stays_inside_mapping_and_folio() {
        let run = |block, offset| {
            let folios = vec![(Span::new(0, LIMIT), block)];
            let vma = text(0x401000, 0x423000, 0x1000);
            let mut space = Space::default();
            space.add(Object {
                folios,
                ..object(Placement::Fixed, vma)
            });
            space.translate(0, offset).run
        };
        // 0x400000..0x404000 begins before the mapping; 0x404000..0x408000 is whole.
        assert_eq!(run(Leaf::M2, 0x1000), Leaf::K4);
        assert_eq!(run(Leaf::M2, 0x4000), Leaf::K16);
        assert_eq!(run(Leaf::M2, 0x10000), Leaf::K64);
        assert_eq!(run(Leaf::M2, 0x22000), Leaf::K4);
        assert_eq!(run(Leaf::K16, 0x10000), Leaf::K16);
    }

    #[test]
    fn the_executable_mapping_wins_and_unknown_pages_stand_alone() {
        let mut readable = text(0, 0x2000, 0);
        readable.perms.exec = false;
        let vmas = vec![readable, text(0x3000, 0x5000, 0x1000)];
        let mut space = Space::default();
        space.add(Object {
            vmas,
            ..Object::default()
        });
        assert_eq!(space.translate(0, 0x1000).address, BASE + 0x3000);
        assert_eq!(space.translate(7, 0x1234_5000).address, 0x1234_5000);
    }
}
