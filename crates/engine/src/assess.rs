//! Assesses what the layout, filesystem and kernel allow for one file.

use std::path::PathBuf;

use hugetext_elf::{Encoding, Linker, Machine, Options, Strategy};
use hugetext_host::WindowState;
use hugetext_leaf::{
    Ability, Bias, Cause, Filesystem, Geometry, Leaf, LeafKind, ObjectKind, Reach, Segment,
    large_folios, reach, windows_in_file,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::as_found::AsFound;
use crate::fix::{FixRequest, StrategyChoice, decide_copy};
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
    /// The leaf that `fix` lays out for: the size of the next figures, and of the windows in `cache`.
    pub leaf: Leaf,
    /// Text bytes that `leaf` maps once the text is warm: none if filesystem or kernel forbid it.
    pub reached: u64,
    /// The same after `fix`, which changes no permission.
    pub after_fix: u64,
    /// The same after a merge, by the leaf that a merge lays out for; `after_fix` if there is no merge.
    pub after_merge: u64,
    /// What the filesystem and kernel forbid for `leaf`, whatever the layout.
    pub causes: Vec<Cause>,
    /// The reach of each leaf size, before a fix.
    pub now: Vec<LeafReach>,
    /// The reach after each strategy of `fix`.
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
    /// In which folios its text lies; absent if not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_found: Option<AsFound>,
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
    /// The leaf that it lays out for. A merge may make windows for a larger one.
    pub leaf: Leaf,
    /// Text bytes that the leaf would map once the text is warm.
    pub reached: u64,
    /// Bits of ASLR that the strategy costs.
    pub aslr_bits: u32,
    /// Why the strategy cannot be carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Whether that is because the file must not be changed so, as opposed to gaining nothing.
    #[serde(skip)]
    pub is_forbidden: bool,
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
        // The leaf that fix lays out for, so that the figures are those of fix.
        let leaf = Options::for_image(image, geometry, Strategy::Shift).leaf;
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
        let ability_of = |leaf: Leaf| {
            let mut leaves = geometry.leaves();
            let kind = leaves.find_map(|(kind, own)| (own == leaf).then_some(kind));
            ability(kind.unwrap_or(LeafKind::Pmd), leaf)
        };
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
        let possible = Strategy::ALL
            .map(|strategy| StrategyReach::of(on_host, geometry, strategy, ability_of));
        let reached = now
            .iter()
            .find(|own| own.layout.leaf == leaf)
            .map_or(0, |own| own.reached);
        let given = |strategy: Strategy| {
            let mut ways = possible.iter().filter(|way| way.refusal.is_none());
            ways.find(|way| way.strategy == strategy)
                .map(|way| way.reached)
        };
        let after_fix = given(Strategy::Shift).or_else(|| given(Strategy::Align));
        let after_fix = after_fix.unwrap_or(reached);
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
            after_fix,
            after_merge: given(Strategy::Merge).unwrap_or(after_fix),
            causes: ability_of(leaf).doubt().into_iter().collect(),
            now,
            possible: possible.into(),
            linker: None,
            self_warming: Vec::new(),
            cache,
            as_found: match look {
                Look::AtHeaders => None,
                Look::AtPageCache => AsFound::of(on_host).ok(),
            },
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

impl StrategyReach {
    fn of(
        on_host: &ProgramOnHost<'_>,
        geometry: &Geometry,
        strategy: Strategy,
        ability: impl Fn(Leaf) -> Ability,
    ) -> StrategyReach {
        let request = FixRequest::plain(StrategyChoice::AtMost(strategy), *geometry);
        let decided = decide_copy(on_host, &request);
        let is_forbidden = decided.is_err();
        let decided = decided.map_err(|error| error.reason());
        let decided =
            decided.and_then(|decision| decision.proposal.map_err(|refusal| refusal.to_string()));
        match decided {
            Ok(fix) => StrategyReach {
                strategy,
                leaf: fix.plan.leaf,
                reached: available(fix.reached_after, ability(fix.plan.leaf)),
                aslr_bits: fix.plan.cost.aslr_bits,
                refusal: None,
                is_forbidden,
            },
            Err(refusal) => StrategyReach {
                strategy,
                leaf: Options::for_image(&on_host.program.image, geometry, strategy).leaf,
                reached: 0,
                aslr_bits: 0,
                refusal: Some(refusal),
                is_forbidden,
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
