//! How a file's text is mapped under each compared layout.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use hugetext_elf::{Image, Options, Strategy, layout};
use hugetext_host::{Pid, folio_sizes, huge_spans, text_mappings};
use hugetext_leaf::{Bias, Geometry, LIMIT, Leaf, ObjectKind, Span, Vma, reach, vmas};
use hugetext_tlb::{Object, Placement};
use schemars::JsonSchema;
use serde::Serialize;

/// The compared layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) enum Layout {
    /// Base pages, each in its own folio.
    #[serde(rename = "4k")]
    Base,
    /// Folios of 64K, and load addresses aligned to them.
    #[serde(rename = "64k-folios")]
    Blocks,
    /// As a process maps it on this machine at present.
    #[serde(rename = "today")]
    Today,
    /// After `fix` and `warm`.
    #[serde(rename = "fixed")]
    Fixed,
}

impl Layout {
    /// The layouts, with `Today` only if it is known.
    pub(crate) fn all(today: bool) -> Vec<Layout> {
        let all = [Layout::Base, Layout::Blocks, Layout::Today, Layout::Fixed];
        let wanted = |layout: &Layout| today || *layout != Layout::Today;
        all.into_iter().filter(wanted).collect()
    }

    /// The name in the output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Layout::Base => "4k",
            Layout::Blocks => "64k-folios",
            Layout::Today => "today",
            Layout::Fixed => "fixed",
        }
    }

    /// The description.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Layout::Base => "base pages, each in its own folio",
            Layout::Blocks => "files as they are, in 64K folios at 64K-aligned addresses",
            Layout::Today => "as a process maps it here now",
            Layout::Fixed => "after fix and warm; files too small for any window as under 4k",
        }
    }

    /// How a file with these headers is mapped on a machine of that geometry; `live` is the mapping
    /// of a process on this machine.
    pub(crate) fn object(
        self,
        geometry: &Geometry,
        image: &Image,
        live: Option<&[ObservedText]>,
    ) -> Object {
        let fixed = image.kind == ObjectKind::Executable;
        let base = Object {
            placement: if fixed {
                Placement::Fixed
            } else {
                Placement::Anywhere
            },
            vmas: vmas(&image.segments, Leaf::K4),
            ..Object::default()
        };
        match self {
            Layout::Base => base,
            Layout::Blocks => {
                let folios = base
                    .vmas
                    .iter()
                    .filter_map(|vma| in_folios(vma, Leaf::K64))
                    .collect();
                aligned(Object { folios, ..base }, Leaf::K64, 0)
            }
            Layout::Fixed => after_fix(base, geometry, image),
            Layout::Today => as_seen(base, live.unwrap_or_default()),
        }
    }
}

/// The object at a load bias of `residue` modulo `to`, unless its addresses are fixed.
fn aligned(object: Object, to: Leaf, residue: u64) -> Object {
    match object.placement {
        Placement::Fixed => object,
        _ => Object {
            placement: Placement::Aligned { to, residue },
            ..object
        },
    }
}

/// The object as a live process maps it.
fn as_seen(base: Object, live: &[ObservedText]) -> Object {
    live.iter().fold(base, |mut object, text| {
        let Some(bias) = text.bias(&object.vmas) else {
            return object;
        };
        let unbiased = |span: &Span| {
            Span::new(
                span.start.saturating_sub(bias),
                span.end.saturating_sub(bias),
            )
        };
        object.huge.extend(text.huge.iter().map(unbiased));
        object.folios.extend(
            text.folios
                .iter()
                .map(|(span, leaf)| (unbiased(span), *leaf)),
        );
        aligned(object, Leaf::M2, Leaf::M2.offset_in(bias))
    })
}

/// The object after `fix` and `warm`: its windows are in leaves, and the whole object is in folios
/// of that size.
fn after_fix(base: Object, geometry: &Geometry, image: &Image) -> Object {
    let options = Options::for_image(image, geometry, Strategy::Shift);
    let Ok(plan) = layout(image, Strategy::Shift, &options) else {
        return base;
    };
    let bias = match image.kind {
        ObjectKind::Executable => Bias::ZERO,
        _ => Bias::aligned(plan.leaf),
    };
    let reach = reach(&plan.segments, geometry.page, plan.leaf, bias);
    let windows = reach.segments.into_iter().map(|text| text.windows);
    let windows: Vec<Span> = windows.filter(|windows| !windows.is_empty()).collect();
    if windows.is_empty() {
        return base;
    }
    let folios = vec![(Span::new(0, LIMIT), plan.leaf)];
    let huge = if plan.leaf == geometry.pmd {
        windows
    } else {
        Vec::new()
    };
    aligned(
        Object {
            huge,
            folios,
            ..base
        },
        plan.leaf,
        0,
    )
}

/// A mapping in folios of `leaf`: blocks are whole as far as address and file offset are congruent.
fn in_folios(vma: &Vma, leaf: Leaf) -> Option<(Span, Leaf)> {
    Some((
        vma.addresses,
        congruent(vma.addresses.start, vma.offset, leaf)?,
    ))
}

/// The largest leaf, at most `most`, modulo which an address and its file offset are congruent.
fn congruent(address: u64, offset: u64, most: Leaf) -> Option<Leaf> {
    let differ = address.wrapping_sub(offset) | most.bytes();
    Leaf::from_bytes(1 << differ.trailing_zeros())
}

/// An executable mapping of a live process.
#[derive(Debug, Clone)]
pub(crate) struct ObservedText {
    addresses: Span,
    offset: u64,
    /// The addresses that PMD leaves map.
    huge: Vec<Span>,
    /// Pages in folios larger than a base page; empty if the kernel hides folio sizes.
    folios: Vec<(Span, Leaf)>,
}

/// The mappings of a process, by file, and whether folio sizes could be read.
#[derive(Debug, Default)]
pub(crate) struct ObservedProcess {
    pub(crate) files: HashMap<PathBuf, Vec<ObservedText>>,
    pub(crate) folios_known: bool,
}

impl ObservedProcess {
    /// Reads the mappings of a process.
    pub(crate) fn look(pid: Pid) -> Result<ObservedProcess, String> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(|e| e.to_string())?;
        let mut live = ObservedProcess {
            folios_known: true,
            ..ObservedProcess::default()
        };
        for text in text_mappings(pid).map_err(|error| error.to_string())? {
            let Some(path) = text.path.filter(|_| !text.deleted) else {
                continue;
            };
            let huge = huge_spans(&pagemap, text.addresses).map_err(|error| error.to_string())?;
            let folios = match folio_sizes(&pagemap, text.addresses) {
                Ok(pages) => blocks(&pages, text.addresses.start, text.offset),
                Err(_) => {
                    live.folios_known = false;
                    Vec::new()
                }
            };
            let (addresses, offset) = (text.addresses, text.offset);
            let text = ObservedText {
                addresses,
                offset,
                huge,
                folios,
            };
            live.files.entry(path).or_default().push(text);
        }
        Ok(live)
    }

    pub(crate) fn of(&self, path: &Path) -> Option<&[ObservedText]> {
        self.files.get(path).map(Vec::as_slice)
    }
}

/// Combines pages with the sizes of their folios into runs of blocks.
fn blocks(pages: &[(Span, u64)], address: u64, offset: u64) -> Vec<(Span, Leaf)> {
    let mut runs: Vec<(Span, Leaf)> = Vec::new();
    for (page, folio) in pages {
        let size = Leaf::from_bytes(*folio).and_then(|folio| congruent(address, offset, folio));
        let Some(size) = size.filter(|size| *size > Leaf::K4) else {
            continue;
        };
        match runs.last_mut() {
            Some((run, same)) if run.end == page.start && *same == size => run.end = page.end,
            _ => runs.push((*page, size)),
        }
    }
    runs
}

impl ObservedText {
    /// The load bias of an image with these mappings.
    fn bias(&self, vmas: &[Vma]) -> Option<u64> {
        let mapped = |vma: &&Vma| vma.perms.exec && vma.offset == self.offset;
        let vma = vmas.iter().find(mapped)?;
        self.addresses.start.checked_sub(vma.addresses.start)
    }
}

/// Bytes of the executable mappings of an object, and the part of them in PMD leaves.
pub(crate) fn text_bytes(object: &Object) -> (u64, u64) {
    let mut sum = (0, 0);
    for vma in object.vmas.iter().filter(|vma| vma.perms.exec) {
        sum.0 += vma.addresses.len();
        let inside = |window: &Span| window.intersect(&vma.addresses).len();
        sum.1 += object.huge.iter().map(inside).sum::<u64>();
    }
    sum
}
