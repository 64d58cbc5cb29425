//! Feeds an instruction stream to many models at once.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rayon::prelude::*;

use crate::cores::Core;
use crate::model::{Misses, Model, Slot, slot};
use crate::reader::{Frame, Frames, Page, StreamError};
use crate::space::{Object, Space};
use crate::translation::Translation;

/// The counts of one core under one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The core.
    pub core: &'static Core,
    /// The layout, as a position among those given.
    pub layout: usize,
    /// Sums over all threads.
    pub misses: Misses,
}

/// The totals of a whole stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Instructions executed.
    pub instructions: u64,
    /// How often execution went from one base page to another.
    pub page_changes: u64,
    /// Base pages from which code was executed.
    pub pages: u64,
    /// Threads.
    pub threads: u64,
    /// One entry for each lane, in their order.
    pub counts: Vec<Count>,
}

/// One core under one layout.
struct Lane {
    core: &'static Core,
    layout: usize,
    /// By page number.
    slots: Vec<Slot>,
    /// By thread: each runs on its own core, whose TLBs are empty when the thread starts.
    threads: BTreeMap<u32, Model>,
}

/// Reads the stream to its end, for each pair of a core and a layout in `lanes`. A layout is a
/// number below `layouts`. `objects` tells how each layout maps a file; it is called once for each
/// file that executes, and returns one object for each layout.
pub fn replay(
    input: impl Read,
    lanes: &[(&'static Core, usize)],
    layouts: usize,
    mut objects: impl FnMut(&Path) -> Vec<Object>,
) -> Result<Totals, StreamError> {
    let mut frames = Frames::new(input);
    let mut spaces: Vec<Space> = (0..layouts).map(|_| Space::default()).collect();
    let mut lanes: Vec<Lane> = lanes
        .iter()
        .map(|(core, layout)| Lane::new(core, *layout))
        .collect();
    let (mut instructions, mut page_changes, mut pages, mut threads) = (0u64, 0u64, 0, 0);
    loop {
        match frames.next_frame()? {
            Frame::Object(path) => {
                for (space, object) in spaces.iter_mut().zip(objects(&path)) {
                    space.add(object);
                }
            }
            Frame::Page(page) => {
                pages += 1;
                let translations: Vec<Translation> =
                    spaces.iter().map(|space| translate(space, page)).collect();
                for lane in &mut lanes {
                    // A lane whose layout does not exist counts nothing.
                    let translation = translations.get(lane.layout);
                    lane.slots
                        .extend(translation.map(|known| slot(lane.core, *known)));
                }
            }
            Frame::Run { thread, pages } => {
                page_changes += pages.len() as u64;
                lanes
                    .par_iter_mut()
                    .for_each(|lane| lane.run(thread, &pages));
            }
            Frame::Thread {
                instructions: count,
                ..
            } => {
                threads += 1;
                instructions = instructions.saturating_add(count);
            }
            Frame::End => break,
        }
    }
    let counts = lanes.iter().map(Lane::count).collect();
    Ok(Totals {
        instructions,
        page_changes,
        pages,
        threads,
        counts,
    })
}

fn translate(space: &Space, page: Page) -> Translation {
    match page {
        Page::File { object, offset } => space.translate(object as usize, offset),
        Page::Anonymous { address } => Translation::base_page(address),
    }
}

impl Lane {
    fn new(core: &'static Core, layout: usize) -> Lane {
        Lane {
            core,
            layout,
            slots: Vec::new(),
            threads: BTreeMap::new(),
        }
    }

    fn run(&mut self, thread: u32, pages: &[u32]) {
        let core = self.core;
        let model = self
            .threads
            .entry(thread)
            .or_insert_with(|| Model::new(core));
        for page in pages {
            // The reader rejects any page that was not announced.
            if let Some(slot) = self.slots.get(*page as usize) {
                model.access_slot(slot);
            }
        }
    }

    fn count(&self) -> Count {
        let mut misses = Misses::default();
        for model in self.threads.values() {
            misses += model.misses();
        }
        Count {
            core: self.core,
            layout: self.layout,
            misses,
        }
    }
}
