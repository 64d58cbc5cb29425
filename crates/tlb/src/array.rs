//! One set-associative array of TLB entries.

use hugetext_leaf::Leaf;

/// The shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Entries in all, a multiple of `ways`.
    pub entries: u32,
    /// Entries of a set; equal to `entries` where the array is fully associative. The number of
    /// sets is a power of two.
    pub ways: u32,
    /// The sizes an entry can have, in bytes, ascending. A translation of a size that is not among
    /// them is held as pieces of the next smaller one.
    pub holds: &'static [Leaf],
}

impl Shape {
    /// The number of sets.
    pub fn sets(&self) -> u32 {
        self.entries / self.ways
    }

    /// The largest entry for a block of `size` bytes, if any entry is small enough.
    pub(crate) fn entry_size(&self, size: Leaf) -> Option<Leaf> {
        self.holds.iter().copied().rfind(|held| *held <= size)
    }
}

/// Where an address belongs in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    set: u32,
    /// Number and size of the entry; never 0.
    tag: u64,
}

impl Place {
    /// The place of the entry of `size` around `address`. Sets are chosen by the lowest bits of
    /// the entry's own number.
    pub(crate) fn new(shape: &Shape, address: u64, size: Leaf) -> Place {
        let number = address >> size.shift();
        Place {
            set: (number % u64::from(shape.sets())) as u32,
            tag: number << 6 | u64::from(size.shift()),
        }
    }
}

/// The array itself. The entries of a set lie in the order of their last use, so that the first is
/// the most recently used one and the last is the one to go: a hit near the front, the usual case,
/// is found and moved at once.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    ways: usize,
    tags: Vec<u64>,
}

impl Array {
    pub(crate) fn new(shape: &Shape) -> Array {
        Array {
            ways: shape.ways as usize,
            tags: vec![0; shape.entries as usize],
        }
    }

    /// Whether the entry is there; afterwards it is, as the most recently used of its set.
    #[inline]
    pub(crate) fn access(&mut self, place: Place) -> bool {
        let start = place.set as usize * self.ways;
        let set = &mut self.tags[start..start + self.ways];
        if set[0] == place.tag {
            return true;
        }
        let found = set.iter().position(|tag| *tag == place.tag);
        let end = found.unwrap_or(self.ways - 1);
        set.copy_within(..end, 1);
        set[0] = place.tag;
        found.is_some()
    }
}
