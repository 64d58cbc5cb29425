//! Assesses what the layout, filesystem and kernel allow for one file.

use std::path::PathBuf;

use hugetext_elf::{Linker, Machine, Options, Strategy, plan};
use hugetext_host::{CacheState, FileWindows, WindowState};
use hugetext_leaf::{
    Bias, Cause, Filesystem, Geometry, Leaf, LeafKind, Loader, ObjectKind, Reach, Segment,
    large_folio_obstacle, reach, windows_in_file,
};
use serde::Serialize;

use crate::path::lossy;
use crate::program::Program;

/// One file, assessed.
#[derive(Debug, Serialize)]
pub(crate) struct Assessment {
    #[serde(serialize_with = "lossy::path")]
    pub(crate) path: PathBuf,
    pub(crate) kind: ObjectKind,
    pub(crate) machine: Machine,
    pub(crate) geometry: Geometry,
    pub(crate) filesystem: Filesystem,
    /// The filesystem whose page cache holds the file; it differs from the file's own on an overlay
    /// only.
    pub(crate) page_cache: Filesystem,
    /// Bytes of text.
    pub(crate) text: u64,
    pub(crate) segments: Vec<Segment>,
    /// What is known of its load bias.
    pub(crate) bias: Bias,
    /// What the filesystem and kernel forbid, whatever the layout.
    pub(crate) causes: Vec<Cause>,
    /// The leaf size of `reached` and `after fix`.
    pub(crate) leaf: Leaf,
    /// The reach that the layout gives each leaf size, before a fix, if `causes` allow any.
    pub(crate) now: Vec<LeafReach>,
    /// The reach that the layout gives `leaf` after each strategy of `fix`, under the same
    /// condition.
    pub(crate) possible: Vec<Possible>,
    /// The linker that made the file, where the file names it; not read in a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) linker: Option<Linker>,
    /// The windows in the page cache; absent if not asked for or not permitted to be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<CacheCount>,
}

/// The reach of one leaf size before a fix.
#[derive(Debug, Serialize)]
pub(crate) struct LeafReach {
    pub(crate) kind: LeafKind,
    #[serde(flatten)]
    pub(crate) reach: Reach,
}

/// The result that one strategy of `fix` would give.
#[derive(Debug, Serialize)]
pub(crate) struct Possible {
    pub(crate) strategy: Strategy,
    /// Text bytes within reach.
    pub(crate) reached: u64,
    /// Bits of address randomness that the strategy costs.
    pub(crate) aslr_bits: u32,
    /// Why the strategy cannot be carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
}

/// Windows in the page cache, by state.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct CacheCount {
    pub(crate) huge: usize,
    pub(crate) small: usize,
    pub(crate) absent: usize,
}

impl Assessment {
    /// Assesses a program from its headers alone, for a geometry, a loader and the filesystem of
    /// its pages.
    pub(crate) fn of(
        program: &Program,
        geometry: &Geometry,
        loader: &Loader,
        page_cache: Filesystem,
    ) -> Assessment {
        let image = &program.image;
        let text = image.text_len();
        let (leaf_kind, leaf) = worthwhile_leaf(geometry, text);
        let bias = loader.bias(image.kind, &image.segments, geometry);
        Assessment {
            path: program.path.clone(),
            kind: image.kind,
            machine: image.machine,
            geometry: *geometry,
            filesystem: loader.filesystem,
            page_cache,
            text,
            segments: image.segments.clone(),
            bias,
            causes: large_folio_obstacle(page_cache, loader.kernel, leaf_kind, leaf)
                .into_iter()
                .collect(),
            leaf,
            now: geometry
                .leaves()
                .map(|(kind, leaf)| LeafReach {
                    kind,
                    reach: reach(&image.segments, geometry.page, leaf, bias),
                })
                .collect(),
            possible: [Strategy::Align, Strategy::Shift, Strategy::Merge]
                .into_iter()
                .map(|strategy| possible(program, geometry, loader, strategy))
                .collect(),
            linker: None,
            cache: None,
        }
    }

    /// The reach of the worthwhile leaf with the present layout.
    pub(crate) fn layout(&self) -> Option<&Reach> {
        self.now
            .iter()
            .map(|leaf| &leaf.reach)
            .find(|reach| reach.leaf == self.leaf)
    }

    /// Text bytes that the worthwhile leaf can map now.
    pub(crate) fn reached(&self) -> u64 {
        self.allowed(self.layout().map_or(0, |reach| reach.reached))
    }

    /// Text bytes within reach after a fix that changes no permission.
    pub(crate) fn after_fix(&self) -> u64 {
        self.by(|strategy| strategy != Strategy::Merge)
    }

    /// Text bytes within reach after a merge.
    pub(crate) fn after_merge(&self) -> u64 {
        self.by(|_| true)
    }

    fn by(&self, allowed: impl Fn(Strategy) -> bool) -> u64 {
        let fixed = self
            .possible
            .iter()
            .filter(|possible| allowed(possible.strategy))
            .map(|possible| self.allowed(possible.reached));
        fixed.fold(self.reached(), u64::max)
    }

    /// The part of `reach`, which a layout gives, that is available: nothing if the filesystem or
    /// kernel forbids it.
    fn allowed(&self, reach: u64) -> u64 {
        match self.is_forbidden() {
            true => 0,
            false => reach,
        }
    }

    /// Whether huge folios are known to be unavailable. For an overlay whose layers cannot be seen,
    /// nothing is known; its cause tells that.
    pub(crate) fn is_forbidden(&self) -> bool {
        const UNKNOWN: Cause = Cause::Filesystem {
            filesystem: Filesystem::Overlay,
        };
        self.causes.iter().any(|cause| *cause != UNKNOWN)
    }

    /// Records the state of the page cache. If it holds huge folios, they are available, whatever
    /// the rules tell of the filesystem or cannot tell of an overlay.
    pub(crate) fn look_at_cache(&mut self, program: &Program) {
        self.cache = CacheCount::of(program, self);
        if self.cache.is_some_and(|cache| cache.huge > 0) {
            self.causes.clear();
        }
    }
}

/// The leaf that the figures refer to: the largest that text can fill, or the smallest if it fills
/// none.
fn worthwhile_leaf(geometry: &Geometry, text: u64) -> (LeafKind, Leaf) {
    let wanted = geometry.layout_leaf(text);
    let fits = |(_, leaf): &(LeafKind, Leaf)| wanted == Some(*leaf);
    geometry
        .leaves()
        .find(fits)
        .or(geometry.leaves().last())
        .unwrap_or((LeafKind::Pmd, geometry.pmd))
}

fn possible(
    program: &Program,
    geometry: &Geometry,
    loader: &Loader,
    strategy: Strategy,
) -> Possible {
    let image = &program.image;
    let options = Options::for_image(image, geometry, strategy);
    match plan(image, strategy, &options) {
        Ok(plan) => {
            let bias = loader.bias(image.kind, &plan.segments, geometry);
            Possible {
                strategy,
                reached: plan.reached_at(image, geometry.page, bias),
                aslr_bits: plan.cost.aslr_bits,
                refusal: None,
            }
        }
        Err(refusal) => Possible {
            strategy,
            reached: 0,
            aslr_bits: 0,
            refusal: Some(refusal.to_string()),
        },
    }
}

impl CacheCount {
    /// Looks at the page cache of a program's read-only windows; `None` if it has no window or the
    /// caller may not see them.
    pub(crate) fn of(program: &Program, assessment: &Assessment) -> Option<CacheCount> {
        let page = assessment.geometry.page;
        let ranges = windows_in_file(
            &program.image.segments,
            page,
            assessment.leaf,
            assessment.bias,
        );
        let states = ranges.into_iter().map(|range| {
            FileWindows::new(&program.file, range, assessment.leaf)
                .state()
                .ok()
        });
        let states: Vec<CacheState> = states.collect::<Option<_>>()?;
        let count = |state| states.iter().map(|windows| windows.count(state)).sum();
        (!states.is_empty()).then(|| CacheCount {
            huge: count(WindowState::Huge),
            small: count(WindowState::Small),
            absent: count(WindowState::Absent),
        })
    }

    /// All windows.
    pub(crate) fn total(&self) -> usize {
        self.huge + self.small + self.absent
    }
}
