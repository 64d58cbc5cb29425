//! Assesses what the layout, filesystem and kernel allow for one file.

use std::path::PathBuf;

use hugetext_elf::{Encoding, Linker, Machine, Options, Strategy, plan};
use hugetext_host::WindowState;
use hugetext_leaf::{
    Ability, Bias, Cause, Filesystem, Geometry, Leaf, LeafKind, ObjectKind, Reach, Segment,
    large_folios, reach, windows_in_file,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::on_host::ProgramOnHost;
use crate::self_warming::SelfWarming;

/// One file, assessed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Assessment {
    /// The file.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// How it is loaded.
    pub kind: ObjectKind,
    /// Its instruction set.
    pub machine: Machine,
    /// How its numbers are written.
    pub encoding: Encoding,
    /// The leaf sizes that it was assessed for.
    pub geometry: Geometry,
    /// The filesystem that it lies on.
    pub filesystem: Filesystem,
    /// The filesystem whose page cache holds the file; it differs from the file's own on an overlay
    /// only.
    pub page_cache: Filesystem,
    /// Bytes of text.
    pub text: u64,
    /// Its PT_LOADs.
    pub segments: Vec<Segment>,
    /// What is known of its load bias.
    pub bias: Bias,
    /// The leaf size of the next three figures, and of the windows in `cache`.
    pub leaf: Leaf,
    /// Text bytes that `leaf` maps once the text is warm: none if filesystem or kernel forbid it.
    pub reached: u64,
    /// The same after a fix that changes no permission.
    pub after_fix: u64,
    /// The same after a merge.
    pub after_merge: u64,
    /// What the filesystem and kernel forbid for `leaf`, whatever the layout.
    pub causes: Vec<Cause>,
    /// The reach of each leaf size, before a fix.
    pub now: Vec<LeafReach>,
    /// The reach of `leaf` after each strategy of `fix`.
    pub possible: Vec<StrategyReach>,
    /// The linker that made the file, where the file names it; not read in a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linker: Option<Linker>,
    /// What loaders make huge on a cold start; not read in a scan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub self_warming: Vec<SelfWarming>,
    /// The windows in the page cache; absent if not asked for or not permitted to be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<WindowCounts>,
}

/// The reach of one leaf size before a fix.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LeafReach {
    /// The kind of the leaf.
    pub kind: LeafKind,
    /// Text bytes that the leaf maps once the text is warm.
    pub reached: u64,
    /// What the layout alone gives, whatever filesystem and kernel allow.
    #[serde(flatten)]
    pub layout: Reach,
}

/// The result that one strategy of `fix` would give.
#[derive(Debug, JsonSchema, Serialize)]
pub struct StrategyReach {
    /// The strategy.
    pub strategy: Strategy,
    /// Text bytes that the leaf would map once the text is warm.
    pub reached: u64,
    /// Bits of address randomness that the strategy costs.
    pub aslr_bits: u32,
    /// Why the strategy cannot be carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// Windows in the page cache, by state.
#[derive(Debug, Clone, Copy, Default, JsonSchema, Serialize)]
pub struct WindowCounts {
    /// In one folio of the leaf's order.
    pub huge: usize,
    /// Cached as a whole, in smaller folios.
    pub small: usize,
    /// Not, or not wholly, in the page cache.
    pub absent: usize,
}

/// What an assessment reads beside the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    AtHeaders,
    /// The page cache of this machine.
    AtPageCache,
}

impl Assessment {
    /// Assesses a program for machines of `geometry`. If the page cache is looked at and holds huge
    /// folios of the file, they are available, whatever the rules tell of the filesystem or cannot
    /// tell of an overlay.
    pub fn of(on_host: &ProgramOnHost<'_>, geometry: &Geometry, look: Look) -> Assessment {
        let image = &on_host.program.image;
        let (leaf_kind, leaf) = worthwhile_leaf(geometry, image.text_len());
        let bias = on_host.bias_with(&image.segments, geometry);
        let (pages, kernel) = (on_host.pages, on_host.loader.kernel);
        let cache = match look {
            Look::AtHeaders => None,
            Look::AtPageCache => WindowCounts::of(on_host, geometry.page, leaf, bias),
        };
        let huge_here = cache.is_some_and(|cache| cache.huge > 0);
        let ability = |kind, size| {
            if huge_here && size == leaf {
                Ability::Has
            } else {
                large_folios(pages, kernel, kind, size)
            }
        };
        let here = ability(leaf_kind, leaf);
        let now: Vec<LeafReach> = geometry
            .leaves()
            .map(|(kind, leaf)| {
                let layout = reach(&image.segments, geometry.page, leaf, bias);
                LeafReach {
                    kind,
                    reached: available(layout.reached, ability(kind, leaf)),
                    layout,
                }
            })
            .collect();
        let possible =
            Strategy::ALL.map(|strategy| StrategyReach::of(on_host, geometry, strategy, here));
        let reached = now
            .iter()
            .find(|own| own.layout.leaf == leaf)
            .map_or(0, |own| own.reached);
        let best = |allowed: fn(Strategy) -> bool| {
            let fixed = possible.iter().filter(|fixed| allowed(fixed.strategy));
            fixed.map(|fixed| fixed.reached).fold(reached, u64::max)
        };
        Assessment {
            path: on_host.program.path.clone(),
            kind: image.kind,
            machine: image.machine,
            encoding: image.encoding,
            geometry: *geometry,
            filesystem: on_host.filesystem,
            page_cache: pages,
            text: image.text_len(),
            segments: image.segments.clone(),
            bias,
            leaf,
            reached,
            after_fix: best(|strategy| strategy != Strategy::Merge),
            after_merge: best(|_| true),
            causes: here.doubt().into_iter().collect(),
            now,
            possible: possible.into(),
            linker: None,
            self_warming: Vec::new(),
            cache,
        }
    }

    /// What the present layout gives `leaf`.
    pub fn layout(&self) -> Option<&Reach> {
        let mut layouts = self.now.iter().map(|own| &own.layout);
        layouts.find(|layout| layout.leaf == self.leaf)
    }

    /// Whether huge folios are known to be unavailable. For an overlay whose layers cannot be seen,
    /// nothing is known; its cause tells that.
    pub fn is_forbidden(&self) -> bool {
        const UNKNOWN: Cause = Cause::Filesystem {
            filesystem: Filesystem::Overlay,
        };
        self.causes.iter().any(|cause| *cause != UNKNOWN)
    }
}

/// The part of `layout`, the bytes in windows, that leaves can map: nothing where filesystem or
/// kernel forbid it.
fn available(layout: u64, ability: Ability) -> u64 {
    match ability.refusal() {
        None => layout,
        Some(_) => 0,
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

impl StrategyReach {
    fn of(
        on_host: &ProgramOnHost<'_>,
        geometry: &Geometry,
        strategy: Strategy,
        ability: Ability,
    ) -> StrategyReach {
        let image = &on_host.program.image;
        let options = Options::for_image(image, geometry, strategy);
        match plan(image, strategy, &options) {
            Ok(plan) => {
                let bias = on_host.bias_with(&plan.segments, geometry);
                StrategyReach {
                    strategy,
                    reached: available(plan.reached_at(image, geometry.page, bias), ability),
                    aslr_bits: plan.cost.aslr_bits,
                    refusal: None,
                }
            }
            Err(refusal) => StrategyReach {
                strategy,
                reached: 0,
                aslr_bits: 0,
                refusal: Some(refusal.to_string()),
            },
        }
    }
}

impl WindowCounts {
    /// Looks at the page cache of a program's read-only windows; `None` if it has no window or the
    /// caller may not see them.
    fn of(on_host: &ProgramOnHost<'_>, page: Leaf, leaf: Leaf, bias: Bias) -> Option<WindowCounts> {
        let image = &on_host.program.image;
        let ranges = windows_in_file(&image.segments, page, leaf, bias);
        let cache = on_host.page_cache(&ranges, leaf).ok()?;
        (!ranges.is_empty()).then(|| WindowCounts {
            huge: cache.count(WindowState::Huge),
            small: cache.count(WindowState::Small),
            absent: cache.count(WindowState::Absent),
        })
    }

    /// All windows.
    pub fn total(&self) -> usize {
        self.huge + self.small + self.absent
    }
}
