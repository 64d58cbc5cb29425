//! A TLB written down as plainly as possible: every entry is a range of addresses with the time of
//! its last use, every look-up compares with all of them. No ordering, no tags, no places worked out
//! beforehand: nothing of how the crate does it.

use hugetext_tlb::{Core, Misses, Shape, Translation};

struct Entry {
    array: usize,
    start: u64,
    size: u64,
    used: u64,
}

/// The instruction TLBs of a core.
pub(crate) struct Reference {
    core: &'static Core,
    levels: [Vec<Entry>; 2],
    now: u64,
    pub(crate) misses: Misses,
}

impl Reference {
    pub(crate) fn new(core: &'static Core) -> Reference {
        Reference {
            core,
            levels: [Vec::new(), Vec::new()],
            now: 0,
            misses: Misses::default(),
        }
    }

    pub(crate) fn access(&mut self, translation: Translation) {
        self.now += 1;
        let block = block(self.core, translation);
        if self.level(0, translation.address, block) {
            return;
        }
        self.misses.l1 += 1;
        if !self.level(1, translation.address, block) {
            self.misses.l2 += 1;
        }
    }

    /// Whether the level has an entry for the address; adds one if not.
    fn level(&mut self, level: usize, address: u64, block: u64) -> bool {
        let shapes = [self.core.l1, self.core.l2][level];
        let entries = &mut self.levels[level];
        for entry in entries.iter_mut() {
            if entry.start <= address && address < entry.start + entry.size {
                entry.used = self.now;
                return true;
            }
        }
        let mut array = 0;
        let mut size = 0;
        for (index, shape) in shapes.iter().enumerate() {
            for held in shape.holds.iter().map(|leaf| leaf.bytes()) {
                if size < held && held <= block {
                    (array, size) = (index, held);
                }
            }
        }
        let start = address - address % size;
        let shape = &shapes[array];
        let mine = set(shape, start, size);
        let rivals =
            |entry: &Entry| entry.array == array && set(shape, entry.start, entry.size) == mine;
        if entries.iter().filter(|entry| rivals(entry)).count() == shape.ways as usize {
            let oldest = entries
                .iter()
                .filter(|entry| rivals(entry))
                .map(|e| e.used)
                .min();
            entries.retain(|entry| !rivals(entry) || Some(entry.used) != oldest);
        }
        entries.push(Entry {
            array,
            start,
            size,
            used: self.now,
        });
        false
    }
}

fn set(shape: &Shape, start: u64, size: u64) -> u64 {
    start / size % u64::from(shape.entries / shape.ways)
}

/// The bytes that one entry may stand for.
fn block(core: &Core, translation: Translation) -> u64 {
    if translation.leaf == core.geometry.pmd {
        return core.geometry.pmd.bytes();
    }
    let mut bytes = core.geometry.page.bytes();
    for merged in [core.geometry.contpte, core.coalesces]
        .into_iter()
        .flatten()
    {
        if translation.run >= merged && merged.bytes() > bytes {
            bytes = merged.bytes();
        }
    }
    bytes
}
