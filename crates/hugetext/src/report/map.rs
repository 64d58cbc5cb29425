//! Text drawn to scale: which part of each mapping or segment which leaves map, and why.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use hugetext_host::{FileWindows, Machine, WindowState, folio_sizes, huge_spans};
use hugetext_leaf::{Cause, Leaf, Span};
use serde::Serialize;

use crate::check::{Assessment, LiveText, live_texts};
use crate::failure::Failure;
use crate::program::Program;
use crate::table::{bytes, percent};
use crate::warm::{self, Ground};

/// Steps along the width of a drawing; finer detail is not drawn.
const STEPS: u64 = 1000;

/// What a piece of text is mapped or cached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A PMD leaf, or a folio of its order.
    Huge,
    /// A folio above the base page, mapped by PTEs.
    Large,
    /// Base pages, or folios whose size may not be seen.
    Base,
    /// Not in memory.
    Absent,
    /// No window: no leaf can map it, whatever is in memory.
    Outside,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Huge => "huge",
            Kind::Large => "larger folios, by base pages",
            Kind::Base => "small folios",
            Kind::Absent => "not in memory",
            Kind::Outside => "in no window",
        }
    }
}

/// A run of one kind, along a drawing of [`STEPS`] width.
#[derive(Debug, Serialize)]
pub(super) struct Piece {
    x: u64,
    width: u64,
    kind: Kind,
    /// What hovering tells.
    title: String,
}

/// A mapping or segment.
#[derive(Debug, Serialize)]
pub(super) struct Strip {
    pub(super) name: String,
    pub(super) place: String,
    pub(super) size: String,
    /// Its width in a drawing where the largest strip has [`STEPS`].
    pub(super) scale: u64,
    pub(super) pieces: Vec<Piece>,
    /// Bytes of each kind, as text, in the order of the legend.
    pub(super) amounts: Vec<String>,
    pub(super) causes: Vec<String>,
}

/// A program or process.
#[derive(Debug, Serialize)]
pub(super) struct Map {
    pub(super) title: String,
    pub(super) facts: Vec<String>,
    /// Text, in reach, huge now: for the summary.
    pub(super) text: String,
    pub(super) reach: String,
    pub(super) huge: String,
    pub(super) strips: Vec<Strip>,
    /// Bytes of resident text by folio size, smallest first; empty where it may not be seen.
    pub(super) folios: Vec<Folios>,
}

/// How much text comes from folios of one size.
#[derive(Debug, Serialize)]
pub(super) struct Folios {
    pub(super) folio: String,
    pub(super) bytes: String,
    /// Of [`STEPS`], the largest being all.
    pub(super) width: u64,
}

impl Map {
    /// The text mappings of a running process.
    pub(super) fn of_process(pid: i32, machine: &Machine, leaf: Leaf) -> Result<Map, Failure> {
        let texts = live_texts(pid, machine.page, leaf)?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"));
        let pagemap =
            pagemap.map_err(|error| Failure::new(format_args!("process {pid}"), error))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut folios = BTreeMap::new();
        let mut drawn = Vec::new();
        for text in &texts {
            drawn.push(runs_of_process(text, &pagemap, &mut folios));
        }
        let longest = texts.iter().map(|text| text.mapping.addresses.len()).max();
        let strips = texts.iter().zip(drawn).map(|(text, runs)| {
            let span = text.mapping.addresses;
            let path = text.mapping.path.as_deref().unwrap_or(Path::new("?"));
            strip(
                path.display().to_string(),
                span,
                &runs,
                &text.causes,
                longest,
            )
        });
        let sum = |of: fn(&LiveText) -> u64| texts.iter().map(of).sum::<u64>();
        let text = sum(|text| text.mapping.addresses.len());
        let huge = sum(|text| text.mapping.pmd_mapped);
        let reached = sum(|text| text.reached);
        Ok(Map {
            title: format!("Process {pid}, {}", name.trim_end()),
            facts: vec![format!("{} text mappings, leaf {leaf}", texts.len())],
            text: bytes(text),
            reach: format!("{} ({})", bytes(reached), percent(reached, text)),
            huge: format!("{} ({})", bytes(huge), percent(huge, text)),
            strips: strips.collect(),
            folios: distribution(&folios),
        })
    }

    /// The segments of a file, with what the page cache holds of their windows.
    pub(super) fn of_file(path: &Path, machine: &Machine, ground: &Ground) -> Result<Map, Failure> {
        let program = Program::open(path)?;
        let geometry = program
            .geometry(None, machine.geometry)
            .ok_or_else(|| program.unknown_geometry())?;
        let loader = program.loader(ground.kernel(), program.filesystem(ground.mounts())?);
        let page_cache = program.page_cache(ground.mounts())?;
        let found = Assessment::of(&program, &geometry, &loader, page_cache);
        let cached = cached(&program, ground)?;
        let segments = &program.image.segments;
        let longest = segments.iter().map(|segment| segment.file().len()).max();
        let reaches = found.layout();
        let strips = segments.iter().enumerate().filter(|(_, s)| s.filesz > 0);
        let strips = strips.map(|(index, segment)| {
            let reach =
                reaches.and_then(|reach| reach.segments.iter().find(|s| s.segment == index));
            let causes = reach.map(|reach| reach.causes.clone()).unwrap_or_default();
            let runs = cut(segment.file(), &cached);
            let name = format!("{} at {:#x}", segment.perms, segment.vaddr);
            strip(name, segment.file(), &runs, &causes, longest)
        });
        let huge: u64 = segments
            .iter()
            .filter(|segment| segment.is_text())
            .flat_map(|segment| cut(segment.file(), &cached))
            .filter(|(_, kind)| *kind == Kind::Huge)
            .map(|(span, _)| span.len())
            .sum();
        let (now, after) = (found.reached(), found.after_fix());
        Ok(Map {
            title: path.display().to_string(),
            facts: vec![
                format!(
                    "{} pages, leaf {}, on {}",
                    geometry, found.leaf, found.filesystem
                ),
                format!("{} in reach after fix", percent(after, found.text)),
            ],
            text: bytes(found.text),
            reach: format!("{} ({})", bytes(now), percent(now, found.text)),
            huge: format!("{} ({})", bytes(huge), percent(huge, found.text)),
            strips: strips.collect(),
            folios: Vec::new(),
        })
    }
}

/// The windows of a file and what the page cache holds of each.
fn cached(program: &Program, ground: &Ground) -> Result<Vec<(Span, Kind)>, Failure> {
    let leaf = ground.leaf();
    let mut cached = Vec::new();
    for range in warm::windows(program, ground)? {
        let state = FileWindows::new(&program.file, range, leaf)
            .state()
            .map_err(|error| Failure::io(&program.path, &error))?;
        let starts = (range.start..range.end).step_by(leaf.bytes() as usize);
        cached.extend(starts.zip(state.windows).map(|(start, state)| {
            let kind = match state {
                WindowState::Huge => Kind::Huge,
                WindowState::Small => Kind::Base,
                WindowState::Absent => Kind::Absent,
            };
            (Span::new(start, start + leaf.bytes()), kind)
        }));
    }
    Ok(cached)
}

/// `whole` as runs: what `known` says, and between that what lies in no window.
fn cut(whole: Span, known: &[(Span, Kind)]) -> Vec<(Span, Kind)> {
    let mut runs = Vec::new();
    let mut at = whole.start;
    let inside = known
        .iter()
        .map(|(span, kind)| (span.intersect(&whole), *kind));
    for (span, kind) in inside.filter(|(span, _)| !span.is_empty()) {
        runs.push((Span::new(at, span.start), Kind::Outside));
        runs.push((span, kind));
        at = span.end;
    }
    runs.push((Span::new(at, whole.end), Kind::Outside));
    runs.retain(|(span, _)| !span.is_empty());
    runs
}

/// The pages of a mapping, run by run; folio sizes are added to `folios`.
fn runs_of_process(
    text: &LiveText,
    pagemap: &File,
    folios: &mut BTreeMap<u64, u64>,
) -> Vec<(Span, Kind)> {
    let whole = text.mapping.addresses;
    let huge = huge_spans(pagemap, whole).unwrap_or_default();
    let is_huge = |at: u64| huge.iter().any(|span| span.contains(at));
    let Ok(pages) = folio_sizes(pagemap, whole) else {
        // Without root only the leaves are known, and how much is in memory, but not where.
        let known: Vec<(Span, Kind)> = huge.iter().map(|span| (*span, Kind::Huge)).collect();
        let other = if text.mapping.rss > 0 {
            Kind::Base
        } else {
            Kind::Absent
        };
        let between = |(span, kind)| (span, if kind == Kind::Outside { other } else { kind });
        return cut(whole, &known).into_iter().map(between).collect();
    };
    let mut runs: Vec<(Span, Kind)> = Vec::new();
    for (page, folio) in pages {
        *folios.entry(folio).or_default() += page.len();
        let kind = if is_huge(page.start) {
            Kind::Huge
        } else if folio > page.len() {
            Kind::Large
        } else {
            Kind::Base
        };
        match runs.last_mut() {
            Some((span, last)) if *last == kind && span.end == page.start => span.end = page.end,
            _ => runs.push((page, kind)),
        }
    }
    let absent = |(span, kind)| match kind {
        Kind::Outside => (span, Kind::Absent),
        kind => (span, kind),
    };
    cut(whole, &runs).into_iter().map(absent).collect()
}

fn strip(
    name: String,
    whole: Span,
    runs: &[(Span, Kind)],
    causes: &[Cause],
    longest: Option<u64>,
) -> Strip {
    let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let kinds = [
        Kind::Huge,
        Kind::Large,
        Kind::Base,
        Kind::Absent,
        Kind::Outside,
    ];
    let amounts = kinds.map(|kind| {
        let own = runs.iter().filter(|(_, own)| *own == kind);
        bytes(own.map(|(span, _)| span.len()).sum())
    });
    Strip {
        name,
        place: format!("{:#x}", whole.start),
        size: bytes(whole.len()),
        scale: scale(whole.len(), longest.unwrap_or(0)).max(4),
        pieces: pieces(whole, runs, &causes),
        amounts: amounts.to_vec(),
        causes,
    }
}

/// The drawing: each step shows what most of it is.
fn pieces(whole: Span, runs: &[(Span, Kind)], causes: &[String]) -> Vec<Piece> {
    let edge = |step: u64| whole.start + whole.len().saturating_mul(step) / STEPS;
    let mut drawn: Vec<(u64, u64, Kind)> = Vec::new();
    let mut first = 0;
    for step in 0..STEPS {
        let cell = Span::new(edge(step), edge(step + 1));
        // Runs ascend, so those that end before this step are done with.
        while runs
            .get(first)
            .is_some_and(|(span, _)| span.end <= cell.start)
        {
            first += 1;
        }
        let mut amounts: BTreeMap<Kind, u64> = BTreeMap::new();
        let here = runs
            .iter()
            .skip(first)
            .take_while(|(span, _)| span.start < cell.end);
        for (span, kind) in here {
            *amounts.entry(*kind).or_default() += span.intersect(&cell).len();
        }
        let Some((kind, _)) = amounts.into_iter().max_by_key(|(_, amount)| *amount) else {
            continue;
        };
        match drawn.last_mut() {
            Some((_, end, last)) if *last == kind => *end = step + 1,
            _ => drawn.push((step, step + 1, kind)),
        }
    }
    let reason = causes.join("; ");
    drawn
        .into_iter()
        .map(|(start, end, kind)| {
            let (from, to) = (edge(start), edge(end));
            let why = match kind {
                Kind::Huge => String::new(),
                _ if reason.is_empty() => String::new(),
                _ => format!(": {reason}"),
            };
            Piece {
                x: start,
                width: end - start,
                kind,
                title: format!("{from:#x} to {to:#x}, {}{why}", kind.name()),
            }
        })
        .collect()
}

fn distribution(folios: &BTreeMap<u64, u64>) -> Vec<Folios> {
    let most = folios.values().copied().max().unwrap_or(0);
    folios
        .iter()
        .map(|(folio, amount)| Folios {
            folio: bytes(*folio),
            bytes: bytes(*amount),
            width: scale(*amount, most).max(1),
        })
        .collect()
}

fn scale(value: u64, most: u64) -> u64 {
    value.saturating_mul(STEPS) / most.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_whole_without_overlap() {
        let known = [
            (Span::new(100, 200), Kind::Huge),
            (Span::new(200, 300), Kind::Base),
        ];
        let runs = cut(Span::new(50, 250), &known);
        let expected = [
            (Span::new(50, 100), Kind::Outside),
            (Span::new(100, 200), Kind::Huge),
            (Span::new(200, 250), Kind::Base),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn a_drawing_has_bounded_pieces_in_order() {
        let runs: Vec<(Span, Kind)> = (0..50_000u64)
            .map(|page| {
                let kind = if page % 2 == 0 {
                    Kind::Base
                } else {
                    Kind::Large
                };
                (Span::new(page * 4096, (page + 1) * 4096), kind)
            })
            .collect();
        let drawn = pieces(Span::new(0, 50_000 * 4096), &runs, &[]);
        assert!(drawn.len() as u64 <= STEPS);
        let mut at = 0;
        for piece in drawn {
            assert_eq!(piece.x, at);
            at += piece.width;
        }
        assert_eq!(at, STEPS);
    }
}
