//! One set-associative array of TLB entries.

use hugetext_leaf::Leaf;

/// The shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Total number of entries, a multiple of `ways`.
    pub entries: u32,
    /// Entries of a set; equal to `entries` if the array is fully associative. The number of
    /// sets is a power of two.
    pub ways: u32,
    /// The possible sizes of an entry in bytes, ascending. A translation of another size is held as
    /// pieces of the next smaller one.
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

/// The position of an address in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    set: u32,
    /// Number and size of the entry; never 0.
    tag: u64,
}

impl Place {
    /// The position of the entry of `size` around `address`. The lowest bits of the entry's own
    /// number select the set.
    pub(crate) fn new(shape: &Shape, address: u64, size: Leaf) -> Place {
        let number = address >> size.shift();
        Place {
            set: (number % u64::from(shape.sets())) as u32,
            tag: number << 6 | u64::from(size.shift()),
        }
    }
}

/// The array. The entries of a set are in the order of their last use: the first is the most
/// recently used one, and the last is replaced next. A hit near the front, the usual case, is found
/// and moved at once.
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

    /// Whether the entry is present. Afterwards it is, as the most recently used one of its set.
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
