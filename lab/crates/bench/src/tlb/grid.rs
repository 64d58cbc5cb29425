//! The cores and layouts that are modelled, all fed from one stream.

use std::path::Path;

use hugetext_engine::Program;
use hugetext_leaf::Geometry;
use hugetext_tlb::{Core, Object, Totals};

use super::layouts::{Layout, ObservedProcess, text_bytes};
use super::report::{CoreMisses, LayoutMisses, LayoutText};

/// Cores and layouts. The meaning of a layout may depend on the leaf sizes, so each geometry has
/// its own address spaces.
pub(crate) struct Grid {
    cores: Vec<&'static Core>,
    spaces: Vec<Space>,
    /// Each core under each layout of its geometry, as an index into `spaces`.
    pub(crate) lanes: Vec<(&'static Core, usize)>,
    /// Files that executed.
    pub(crate) files: u64,
}

/// One address space of the replay.
struct Space {
    geometry: Geometry,
    layout: Layout,
    /// Bytes of text mapped so far.
    text: u64,
    /// The part of it in PMD leaves.
    pmd_mapped: u64,
}

impl Grid {
    /// `cores` under every layout; under `Today` only if that layout is known.
    pub(crate) fn new(cores: Vec<&'static Core>, today: bool) -> Grid {
        let mut geometries: Vec<Geometry> = Vec::new();
        for core in &cores {
            if !geometries.contains(&core.geometry) {
                geometries.push(core.geometry);
            }
        }
        let spaces: Vec<Space> = geometries
            .into_iter()
            .flat_map(|geometry| {
                let layouts = Layout::all(today).into_iter();
                layouts.map(move |layout| Space {
                    geometry,
                    layout,
                    text: 0,
                    pmd_mapped: 0,
                })
            })
            .collect();
        let mut lanes = Vec::new();
        for core in &cores {
            let own = |(_, space): &(usize, &Space)| space.geometry == core.geometry;
            lanes.extend(
                spaces
                    .iter()
                    .enumerate()
                    .filter(own)
                    .map(|(index, _)| (*core, index)),
            );
        }
        Grid {
            cores,
            spaces,
            lanes,
            files: 0,
        }
    }

    /// The number of address spaces.
    pub(crate) fn spaces(&self) -> usize {
        self.spaces.len()
    }

    /// A file that executes, as each address space maps it.
    pub(crate) fn add(&mut self, path: &Path, live: Option<&ObservedProcess>) -> Vec<Object> {
        self.files += 1;
        // A file that can no longer be read, or is not an ELF image, stays in base pages.
        let image = Program::read(path).ok().map(|program| program.image);
        let live = live.and_then(|live| live.of(path));
        let mapped = |space: &mut Space| {
            let object = image.as_ref().map_or_else(Object::default, |image| {
                space.layout.object(&space.geometry, image, live)
            });
            let (text, pmd_mapped) = text_bytes(&object);
            space.text += text;
            space.pmd_mapped += pmd_mapped;
            object
        };
        self.spaces.iter_mut().map(mapped).collect()
    }

    /// The text under each layout, for the geometry of the first core.
    pub(crate) fn layouts(&self) -> Vec<LayoutText> {
        let first = self.cores.first().map(|core| core.geometry);
        let spaces = self
            .spaces
            .iter()
            .filter(|space| Some(space.geometry) == first);
        let text = |space: &Space| LayoutText {
            layout: space.layout,
            meaning: space.layout.meaning(),
            text: space.text,
            pmd_mapped: space.pmd_mapped,
        };
        spaces.map(text).collect()
    }

    /// The counts, core by core.
    pub(crate) fn reports(&self, totals: &Totals) -> Vec<CoreMisses> {
        let report = |core: &&'static Core| {
            let counts = totals.counts.iter().filter(|count| count.core == *core);
            let figures = counts.filter_map(|count| {
                let layout = self.spaces.get(count.layout)?.layout;
                Some(LayoutMisses::new(layout, count.misses, totals.instructions))
            });
            CoreMisses::new(core, figures.collect())
        };
        self.cores.iter().map(report).collect()
    }
}
