//! Finds which leaves map which part of each mapping or segment of programs and processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use hugetext_host::{FileWindows, Machine, WindowState, folio_sizes, huge_spans, process_name};
use hugetext_leaf::{Leaf, Span};
use serde::Serialize;

use super::strip::{Kind, Strip, Text, scale};
use crate::check::{Assessment, LiveText, live_texts};
use crate::failure::Failure;
use crate::program::Program;
use crate::stat::file_of;
use crate::table::{bytes, count, percent};
use crate::warm::{self, Ground};

/// A program or process.
#[derive(Debug, Serialize)]
pub(super) struct Map {
    pub(super) title: String,
    pub(super) facts: Vec<String>,
    /// Bytes of text, bytes in reach and huge bytes, for the summary.
    pub(super) text: String,
    pub(super) reach: String,
    pub(super) huge: String,
    pub(super) strips: Vec<Strip>,
    /// Bytes of resident text by folio size, smallest first; empty where folio sizes are hidden.
    pub(super) folios: Vec<Folios>,
}

/// How much text lies in folios of one size.
#[derive(Debug, Serialize)]
pub(super) struct Folios {
    pub(super) folio: String,
    pub(super) bytes: String,
    /// Per mille of the largest amount.
    pub(super) width: u64,
}

impl Map {
    /// The text mappings of a running process.
    pub(super) fn of_process(pid: i32, machine: &Machine, leaf: Leaf) -> Result<Map, Failure> {
        let seen = observe(pid, machine.page, leaf)?;
        let mut folios = BTreeMap::new();
        for (folio, amount) in seen.iter().flat_map(|seen| &seen.folios) {
            *folios.entry(*folio).or_default() += amount;
        }
        let texts = || seen.iter().map(|seen| &seen.text);
        let lengths = texts().map(|text| text.mapping.addresses.len());
        let longest = lengths.max().unwrap_or(0);
        let strips = seen.iter().map(|Observed { text, runs, .. }| {
            let drawn = Text {
                name: file_of(&text.mapping),
                whole: text.mapping.addresses,
                runs,
                windows: text.windows,
                leaf,
                causes: &text.causes,
            };
            drawn.strip(longest)
        });
        let sum = |of: fn(&LiveText) -> u64| texts().map(of).sum::<u64>();
        let text = sum(|text| text.mapping.addresses.len());
        let huge = sum(|text| text.mapping.pmd_mapped);
        let reached = sum(|text| text.reached);
        Ok(Map {
            title: format!("Process {pid}, {}", process_name(pid)),
            facts: vec![format!(
                "{}, leaf {leaf}",
                count(seen.len(), "text mapping")
            )],
            text: bytes(text),
            reach: format!("{} ({})", bytes(reached), percent(reached, text)),
            huge: format!("{} ({})", bytes(huge), percent(huge, text)),
            strips: strips.collect(),
            folios: distribution(&folios),
        })
    }

    /// The segments of a file, with the state of their windows in the page cache.
    pub(super) fn of_file(path: &Path, machine: &Machine, ground: &Ground) -> Result<Map, Failure> {
        let program = Program::open(path)?;
        let geometry = program
            .geometry(None, machine.geometry)
            .ok_or_else(|| program.unknown_geometry())?;
        let loader = program.loader(ground.kernel, program.filesystem(&ground.mounts)?);
        let page_cache = program.page_cache(&ground.mounts)?;
        let found = Assessment::of(&program, &geometry, &loader, page_cache);
        let cached = cached(&program, ground)?;
        let segments = &program.image.segments;
        let lengths = segments.iter().map(|segment| segment.file().len());
        let longest = lengths.max().unwrap_or(0);
        let windows = warm::windows(&program, ground)?;
        let reaches = found.layout();
        let strips = segments.iter().enumerate().filter(|(_, s)| s.filesz > 0);
        let strips = strips.map(|(index, segment)| {
            let reach =
                reaches.and_then(|reach| reach.segments.iter().find(|s| s.segment == index));
            let causes = reach.map(|reach| reach.causes.clone()).unwrap_or_default();
            let runs = cut(segment.file(), &cached);
            let own = windows.iter().map(|range| range.intersect(&segment.file()));
            let drawn = Text {
                name: format!("{} at {:#x}", segment.perms, segment.vaddr),
                whole: segment.file(),
                runs: &runs,
                windows: own.max_by_key(Span::len).unwrap_or(Span::new(0, 0)),
                leaf: ground.leaf,
                causes: &causes,
            };
            drawn.strip(longest)
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

/// The windows of a file, each with its state in the page cache.
fn cached(program: &Program, ground: &Ground) -> Result<Vec<(Span, Kind)>, Failure> {
    let leaf = ground.leaf;
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

/// `whole` as runs: those of `known`, and between them runs that lie in no window.
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

/// A text mapping of a process, with the pages that map each part of it.
pub(super) struct Observed {
    pub(super) text: LiveText,
    /// The whole mapping, ascending.
    pub(super) runs: Vec<(Span, Kind)>,
    /// Bytes of it by folio size; empty where folio sizes are hidden.
    folios: BTreeMap<u64, u64>,
}

/// The text mappings of a running process, ascending by address.
pub(super) fn observe(pid: i32, page: Leaf, leaf: Leaf) -> Result<Vec<Observed>, Failure> {
    let texts = live_texts(pid, page, leaf)?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap"));
    let pagemap = pagemap.map_err(|error| Failure::new(format_args!("process {pid}"), error))?;
    let observed = texts.into_iter().map(|text| {
        let mut folios = BTreeMap::new();
        let runs = runs_of_process(&text, &pagemap, &mut folios);
        Observed { text, runs, folios }
    });
    Ok(observed.collect())
}

/// The pages of a mapping, one run after the other; folio sizes are added to `folios`.
fn runs_of_process(
    text: &LiveText,
    pagemap: &File,
    folios: &mut BTreeMap<u64, u64>,
) -> Vec<(Span, Kind)> {
    let whole = text.mapping.addresses;
    let huge = huge_spans(pagemap, whole).unwrap_or_default();
    let is_huge = |at: u64| huge.iter().any(|span| span.contains(at));
    let Ok(pages) = folio_sizes(pagemap, whole) else {
        // Without root, only the leaves and the resident total are known, not where the rest lies.
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
}
