//! Two levels of arrays, and the effect of an access on them.

use hugetext_leaf::Leaf;
use serde::Serialize;

use crate::array::{Array, Place, Shape};
use crate::cores::Core;
use crate::translation::Translation;

/// The position of a translation in the arrays of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    l1: (usize, Place),
    l2: (usize, Place),
}

/// The counts of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Translations that were not in the first level.
    pub l1: u64,
    /// Translations that were in neither level: page-table walks.
    pub l2: u64,
}

impl std::ops::AddAssign for Misses {
    fn add_assign(&mut self, other: Misses) {
        self.l1 += other.l1;
        self.l2 += other.l2;
    }
}

/// The instruction TLBs of one core, empty at first.
///
/// An access looks into the first level, and on a miss into the second. Both then hold the entry
/// (neither excludes the other). Every array replaces the least recently used entry of the set. The
/// second level sees only the misses of the first.
#[derive(Debug, Clone)]
pub struct Model {
    core: &'static Core,
    l1: Vec<Array>,
    l2: Vec<Array>,
    misses: Misses,
}

impl Model {
    /// The empty TLBs of a core.
    pub fn new(core: &'static Core) -> Model {
        Model {
            core,
            l1: core.l1.iter().map(Array::new).collect(),
            l2: core.l2.iter().map(Array::new).collect(),
            misses: Misses::default(),
        }
    }

    /// Executes code under a translation.
    pub fn access(&mut self, translation: Translation) {
        self.access_slot(&slot(self.core, translation));
    }

    #[inline]
    pub(crate) fn access_slot(&mut self, slot: &Slot) {
        let (array, place) = slot.l1;
        if self.l1[array].access(place) {
            return;
        }
        self.misses.l1 += 1;
        let (array, place) = slot.l2;
        if !self.l2[array].access(place) {
            self.misses.l2 += 1;
        }
    }

    /// The counts so far.
    pub fn misses(&self) -> Misses {
        self.misses
    }
}

/// The position at which `core` keeps a translation.
pub(crate) fn slot(core: &Core, translation: Translation) -> Slot {
    let size = core.entry_size(translation);
    Slot {
        l1: place(core.l1, translation.address, size),
        l2: place(core.l2, translation.address, size),
    }
}

/// The array that holds the largest entry for a block of `size`, and the position in it.
fn place(arrays: &[Shape], address: u64, size: Leaf) -> (usize, Place) {
    let sizes = arrays
        .iter()
        .enumerate()
        .filter_map(|(index, shape)| Some((shape.entry_size(size)?, index)));
    // Every level of every core holds the base page (a test of `core` checks it), so a largest one
    // exists.
    let (size, index) = sizes.max().unwrap_or((size, 0));
    (index, Place::new(&arrays[index], address, size))
}
