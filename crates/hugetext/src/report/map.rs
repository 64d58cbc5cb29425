//! Finds which leaves map which part of each mapping or segment of programs and processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use hugetext_engine::{
    Assessment, HostContext, Look, ProcessText, ProgramOnHost, TextNodes, WindowNodes,
    process_texts, text_elsewhere, text_nodes,
};
use hugetext_host::{Machine, Nodes, Pid, WindowState, folio_sizes, huge_spans, process_name};
use hugetext_leaf::replica::Node;
use hugetext_leaf::verdict::Verdict;
use hugetext_leaf::{Leaf, Span};
use serde::Serialize;

use super::strip::{PageKind, Strip, StripText, colour, scale};
use crate::failure::Failure;
use crate::locality::summary;
use crate::meaning::{self, Meaning, ProcessesText};
use crate::path::mapped_file;
use crate::table::{bytes, count, percent};

/// A program or process.
#[derive(Debug, Serialize)]
pub(super) struct SubjectMap {
    pub(super) title: String,
    pub(super) facts: Vec<String>,
    /// Bytes of text, bytes in reach and huge bytes, for the summary.
    pub(super) text: String,
    pub(super) reach: String,
    pub(super) huge: String,
    /// What it means, and the next command.
    pub(super) meaning: Meaning,
    /// Its mappings and segments: those that are large enough to matter, and the others, which are folded.
    pub(super) groups: Vec<Strips>,
    /// Bytes of resident text by folio size, smallest first; empty where folio sizes are hidden.
    pub(super) folios: Vec<Folios>,
    /// The NUMA nodes that it lies on; empty where all text lies on one.
    pub(super) nodes: Vec<NodeShare>,
}

/// How much of a process lies on a node.
#[derive(Debug, Serialize)]
pub(super) struct NodeShare {
    pub(super) colour: u32,
    /// Its number, the bytes there, and whether it runs the process.
    pub(super) text: String,
}

/// How much text lies in folios of one size.
#[derive(Debug, Serialize)]
pub(super) struct Folios {
    pub(super) folio: String,
    pub(super) bytes: String,
    /// Per mille of the largest amount.
    pub(super) width: u64,
}

impl SubjectMap {
    /// The text mappings of a running process.
    pub(super) fn of_process(
        pid: Pid,
        machine: &Machine,
        leaf: Leaf,
        verdict: Option<Verdict>,
    ) -> Result<SubjectMap, Failure> {
        let seen = observe(pid, machine.page, leaf)?;
        let mut folios = BTreeMap::new();
        for (folio, amount) in seen.iter().flat_map(|seen| &seen.folios) {
            *folios.entry(*folio).or_default() += amount;
        }
        let texts = || seen.iter().map(|seen| &seen.text);
        let lengths = texts().map(|text| text.mapping.addresses.len());
        let longest = lengths.max().unwrap_or(0);
        let nodes = Nodes::this();
        let several = nodes.all().len() > 1;
        let found = several
            .then(|| text_nodes(pid, leaf, &nodes).ok())
            .flatten();
        let strips = seen.iter().map(|Observed { text, runs, .. }| {
            let drawn = StripText {
                name: mapped_file(&text.mapping),
                whole: text.mapping.addresses,
                runs,
                nodes: &node_runs(found.as_ref(), text.mapping.addresses),
                windows: text.windows,
                leaf,
                causes: &text.causes,
            };
            (drawn.strip(longest), drawn.whole.len())
        });
        let sum = |of: fn(&ProcessText) -> u64| texts().map(of).sum::<u64>();
        let text = sum(|text| text.mapping.addresses.len());
        let huge = sum(|text| text.mapping.pmd_mapped);
        let reached = sum(|text| text.reached);
        let mut facts = vec![format!(
            "{}, leaf {leaf}",
            count(seen.len(), "text mapping")
        )];
        facts.extend(found.as_ref().map(summary));
        let meaning = meaning::processes(
            &ProcessesText {
                pids: vec![pid],
                resident: sum(|text| text.mapping.rss),
                huge,
                reached: Some(reached),
            },
            leaf,
            verdict,
        );
        let groups = Strips::groups(strips);
        Ok(SubjectMap {
            title: format!("Process {pid}, {}", process_name(pid)),
            meaning,
            facts,
            text: bytes(text),
            reach: format!("{} ({})", bytes(reached), percent(reached, text)),
            huge: format!("{} ({})", bytes(huge), percent(huge, text)),
            groups,
            folios: distribution(&folios),
            nodes: found.as_ref().map_or_else(Vec::new, node_shares),
        })
    }

    /// The segments of a file, with the state of their windows in the page cache.
    pub(super) fn of_file(path: &Path, host: &HostContext) -> Result<SubjectMap, Failure> {
        let on_host = ProgramOnHost::open(path, host)?;
        let program = &on_host.program;
        let geometry = program
            .geometry(None, host.geometry)
            .ok_or_else(|| program.unknown_geometry())?;
        let found = Assessment::of(&on_host, &geometry, Look::AtPageCache);
        let windows = on_host.windows();
        let cached = cached(&on_host, &windows)?;
        let segments = &program.image.segments;
        let lengths = segments.iter().map(|segment| segment.file().len());
        let longest = lengths.max().unwrap_or(0);
        let reaches = found.layout();
        let strips = segments.iter().enumerate().filter(|(_, s)| s.filesz > 0);
        let strips = strips.map(|(index, segment)| {
            let reach =
                reaches.and_then(|reach| reach.segments.iter().find(|s| s.segment == index));
            let causes = reach.map(|reach| reach.causes.clone()).unwrap_or_default();
            let runs = cut(segment.file(), &cached);
            let own = windows.iter().map(|range| range.intersect(&segment.file()));
            let drawn = StripText {
                name: format!("{} at {:#x}", segment.perms, segment.vaddr),
                whole: segment.file(),
                runs: &runs,
                nodes: &[],
                windows: own.max_by_key(Span::len).unwrap_or(Span::new(0, 0)),
                leaf: host.leaf,
                causes: &causes,
            };
            (drawn.strip(longest), drawn.whole.len())
        });
        let huge: u64 = segments
            .iter()
            .filter(|segment| segment.is_text())
            .flat_map(|segment| cut(segment.file(), &cached))
            .filter(|(_, kind)| *kind == PageKind::Huge)
            .map(|(span, _)| span.len())
            .sum();
        let (now, after) = (found.reached, found.after_fix);
        let elsewhere = text_elsewhere(&found.path, found.kind, found.text);
        let groups = Strips::groups(strips);
        Ok(SubjectMap {
            meaning: meaning::check(&found, elsewhere.as_ref()),
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
            groups,
            folios: Vec::new(),
            nodes: Vec::new(),
        })
    }
}

/// Strips that are shown or folded together.
#[derive(Debug, Serialize)]
pub(super) struct Strips {
    /// Their number and size where they are folded; empty where they are shown.
    folded: String,
    strips: Vec<Strip>,
}

impl Strips {
    /// The strips of a subject, each with its bytes, those that are small apart.
    fn groups(strips: impl Iterator<Item = (Strip, u64)>) -> Vec<Strips> {
        let all: Vec<(Strip, u64)> = strips.collect();
        let longest = all.iter().map(|(_, size)| *size).max().unwrap_or(0);
        let (large, small): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(_, size)| *size >= longest / SMALL);
        let size = small
            .iter()
            .fold(0, |sum: u64, (_, size)| sum.saturating_add(*size));
        let folded = format!(
            "{} more that are small, {} in all",
            small.len(),
            bytes(size)
        );
        let group = |folded: String, strips: Vec<(Strip, u64)>| Strips {
            folded,
            strips: strips.into_iter().map(|(strip, _)| strip).collect(),
        };
        let mut groups = vec![group(String::new(), large)];
        if !small.is_empty() {
            groups.push(group(folded, small));
        }
        groups
    }
}

/// A mapping or segment that is shorter than this part of the longest one is folded.
const SMALL: u64 = 20;

/// The nodes of a mapping, window by window: the one that most of the window lies on.
fn node_runs(found: Option<&TextNodes>, addresses: Span) -> Vec<(Span, Node)> {
    let mappings = found.map_or(&[][..], |found| &found.mappings);
    let mapping = mappings.iter().find(|of| of.addresses == addresses);
    let windows = mapping.map_or(&[][..], |mapping| &mapping.windows);
    let most = |window: &WindowNodes| {
        let most = window.bytes.each().max_by_key(|(_, bytes)| *bytes);
        most.map(|(node, _)| (window.addresses, node))
    };
    windows.iter().filter_map(most).collect()
}

/// The nodes of a process, ascending.
fn node_shares(found: &TextNodes) -> Vec<NodeShare> {
    let share = |(node, there): (Node, u64)| {
        let runs = found.runs_on.iter().any(|runs| runs.node == node);
        let role = if runs { "which runs it" } else { "remote" };
        NodeShare {
            colour: colour(node),
            text: format!("{node}, {role}: {}", bytes(there)),
        }
    };
    found.bytes.each().map(share).collect()
}

/// The windows of a file, each with its state in the page cache.
fn cached(on_host: &ProgramOnHost<'_>, windows: &[Span]) -> Result<Vec<(Span, PageKind)>, Failure> {
    let cache = on_host.page_cache(windows, on_host.host.leaf)?;
    let kind = |state| match state {
        WindowState::Huge => PageKind::Huge,
        WindowState::Small => PageKind::Base,
        WindowState::Absent => PageKind::Absent,
    };
    let windows = cache.windows();
    Ok(windows.map(|(span, state)| (span, kind(state))).collect())
}

/// `whole` as runs: those of `known`, and between them runs that lie in no window.
fn cut(whole: Span, known: &[(Span, PageKind)]) -> Vec<(Span, PageKind)> {
    let mut runs = Vec::new();
    let mut at = whole.start;
    let inside = known
        .iter()
        .map(|(span, kind)| (span.intersect(&whole), *kind));
    for (span, kind) in inside.filter(|(span, _)| !span.is_empty()) {
        runs.push((Span::new(at, span.start), PageKind::Outside));
        runs.push((span, kind));
        at = span.end;
    }
    runs.push((Span::new(at, whole.end), PageKind::Outside));
    runs.retain(|(span, _)| !span.is_empty());
    runs
}

/// A text mapping of a process, with the pages that map each part of it.
pub(super) struct Observed {
    pub(super) text: ProcessText,
    /// The whole mapping, ascending.
    pub(super) runs: Vec<(Span, PageKind)>,
    /// Bytes of it by folio size; empty where folio sizes are hidden.
    folios: BTreeMap<u64, u64>,
}

/// The text mappings of a running process, ascending by address.
pub(super) fn observe(pid: Pid, page: Leaf, leaf: Leaf) -> Result<Vec<Observed>, Failure> {
    let texts = process_texts(pid, page, leaf)?;
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
    text: &ProcessText,
    pagemap: &File,
    folios: &mut BTreeMap<u64, u64>,
) -> Vec<(Span, PageKind)> {
    let whole = text.mapping.addresses;
    let huge = huge_spans(pagemap, whole).unwrap_or_default();
    let is_huge = |at: u64| huge.iter().any(|span| span.contains(at));
    let Ok(pages) = folio_sizes(pagemap, whole) else {
        // Without root, only the leaves and the resident total are known, not where the rest lies.
        let known: Vec<(Span, PageKind)> =
            huge.iter().map(|span| (*span, PageKind::Huge)).collect();
        let other = if text.mapping.rss > 0 {
            PageKind::Base
        } else {
            PageKind::Absent
        };
        let between = |(span, kind)| {
            (
                span,
                if kind == PageKind::Outside {
                    other
                } else {
                    kind
                },
            )
        };
        return cut(whole, &known).into_iter().map(between).collect();
    };
    let mut runs: Vec<(Span, PageKind)> = Vec::new();
    for (page, folio) in pages {
        *folios.entry(folio).or_default() += page.len();
        let kind = if is_huge(page.start) {
            PageKind::Huge
        } else if folio > page.len() {
            PageKind::Large
        } else {
            PageKind::Base
        };
        match runs.last_mut() {
            Some((span, last)) if *last == kind && span.end == page.start => span.end = page.end,
            _ => runs.push((page, kind)),
        }
    }
    let absent = |(span, kind)| match kind {
        PageKind::Outside => (span, PageKind::Absent),
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
            (Span::new(100, 200), PageKind::Huge),
            (Span::new(200, 300), PageKind::Base),
        ];
        let runs = cut(Span::new(50, 250), &known);
        let expected = [
            (Span::new(50, 100), PageKind::Outside),
            (Span::new(100, 200), PageKind::Huge),
            (Span::new(200, 250), PageKind::Base),
        ];
        assert_eq!(runs, expected);
    }
}
