//! One mapping or segment drawn to scale, and the reason that each window of it is or is not huge.

use std::collections::BTreeMap;

use hugetext_leaf::replica::Node;
use hugetext_leaf::{Cause, Leaf, Span};
use serde::{Deserialize, Serialize};

use crate::table::bytes;

/// Steps along the width of a drawing; finer detail is not drawn.
const STEPS: u64 = 1000;
/// Parts of a strip that are listed; further parts are only counted.
const LISTED: usize = 100;

/// The kind of page or folio that maps or caches a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PageKind {
    /// A PMD leaf, or a folio of its order.
    Huge,
    /// A folio above the base page, mapped by PTEs.
    Large,
    /// Base pages, or folios whose size is hidden from the caller.
    Base,
    /// Not in memory; in a process, not touched by it.
    Absent,
    /// In no window: no leaf can map it, also if it is in memory.
    Outside,
}

const KINDS: [PageKind; 5] = [
    PageKind::Huge,
    PageKind::Large,
    PageKind::Base,
    PageKind::Absent,
    PageKind::Outside,
];

impl PageKind {
    fn name(self) -> &'static str {
        match self {
            PageKind::Huge => "huge",
            PageKind::Large => "larger folios, by base pages",
            PageKind::Base => "small folios",
            PageKind::Absent => "not there",
            PageKind::Outside => "in no window",
        }
    }

    /// Why a window of this kind is not huge.
    fn remedy(self) -> &'static str {
        match self {
            PageKind::Huge | PageKind::Outside => "",
            PageKind::Large => {
                "its folios are smaller than the leaf; hugetext warm makes them huge"
            }
            PageKind::Base => "hugetext warm makes them huge",
            PageKind::Absent => {
                "not touched yet; without hugetext warm, the first access reads it into small folios"
            }
        }
    }
}

/// A mapping or segment.
#[derive(Debug, Serialize)]
pub(super) struct Strip {
    name: String,
    place: String,
    size: String,
    /// Its width in a drawing where the largest strip has [`STEPS`].
    scale: u64,
    pieces: Vec<Piece>,
    /// On which NUMA nodes it lies; empty where all text lies on one.
    nodes: Vec<NodePiece>,
    /// Bytes of each kind, as text, in the order of the legend.
    amounts: Vec<String>,
    causes: Vec<String>,
    parts: Vec<Part>,
    /// Parts that are not listed.
    more: usize,
}

/// A run of one kind, along a drawing of [`STEPS`] width.
#[derive(Debug, Serialize)]
struct Piece {
    x: u64,
    width: u64,
    kind: PageKind,
    /// The tooltip text.
    title: String,
}

/// A run on one NUMA node, along the same drawing.
#[derive(Debug, Serialize)]
struct NodePiece {
    x: u64,
    width: u64,
    colour: u32,
    /// The tooltip text.
    title: String,
}

/// The number of colours for nodes. Further nodes repeat them; the tooltips tell them apart.
const COLOURS: u32 = 8;

/// The colour of a node.
pub(super) fn colour(node: Node) -> u32 {
    node.0 % COLOURS
}

/// Adjacent windows of one kind, or the part before or after all windows.
#[derive(Debug, Serialize)]
struct Part {
    from: String,
    size: String,
    kind: PageKind,
    what: &'static str,
    why: String,
}

/// A mapping or segment, as the caller knows it.
pub(super) struct StripText<'t> {
    pub(super) name: String,
    pub(super) whole: Span,
    /// The kind of each byte, ascending.
    pub(super) runs: &'t [(Span, PageKind)],
    /// The node that each part lies on, ascending; empty where all text lies on one.
    pub(super) nodes: &'t [(Span, Node)],
    /// Its windows, adjacent; empty if it has none.
    pub(super) windows: Span,
    pub(super) leaf: Leaf,
    /// Why there are no further windows, and why these windows are not huge.
    pub(super) causes: &'t [Cause],
}

impl StripText<'_> {
    /// The strip for a drawing whose longest strip has `longest` bytes.
    pub(super) fn strip(&self, longest: u64) -> Strip {
        let causes = self.causes.iter().map(ToString::to_string);
        let mut parts = self.parts();
        let more = parts.len().saturating_sub(LISTED);
        parts.truncate(LISTED);
        let amounts = KINDS.map(|kind| {
            let own = self.runs.iter().filter(|(_, own)| *own == kind);
            bytes(own.map(|(span, _)| span.len()).sum())
        });
        Strip {
            name: self.name.clone(),
            place: format!("{:#x}", self.whole.start),
            size: bytes(self.whole.len()),
            scale: scale(self.whole.len(), longest).max(4),
            pieces: self.pieces(),
            nodes: self.node_pieces(),
            amounts: amounts.to_vec(),
            causes: causes.collect(),
            parts,
            more,
        }
    }

    /// Why a part of this kind is not huge.
    fn why(&self, kind: PageKind, at: u64) -> String {
        match kind {
            PageKind::Huge => String::new(),
            _ if self.windows.contains(at) => kind.remedy().to_owned(),
            _ => {
                let applies = |cause: &&Cause| match cause {
                    Cause::Head { .. } => at < self.windows.start,
                    Cause::Tail { .. } => at >= self.windows.end,
                    Cause::SmallFolios | Cause::SmallPages => false,
                    _ => true,
                };
                let causes = self.causes.iter().filter(applies);
                let causes: Vec<String> = causes.map(ToString::to_string).collect();
                match causes.as_slice() {
                    [] => "no window lies wholly inside".to_owned(),
                    known => known.join("; "),
                }
            }
        }
    }

    /// Where a step of the drawing begins.
    fn edge(&self, step: u64) -> u64 {
        self.whole.start + self.whole.len().saturating_mul(step) / STEPS
    }

    fn cells(&self) -> impl Iterator<Item = Span> {
        (0..STEPS).map(|step| Span::new(self.edge(step), self.edge(step + 1)))
    }

    /// The drawing of nodes: each step shows the node that most of it lies on.
    fn node_pieces(&self) -> Vec<NodePiece> {
        let mut drawn: Vec<(u64, u64, Node)> = Vec::new();
        for (step, node) in (0..STEPS).zip(majorities(self.nodes, self.cells())) {
            let Some(node) = node else { continue };
            match drawn.last_mut() {
                Some((_, end, last)) if *last == node && *end == step => *end += 1,
                _ => drawn.push((step, step + 1, node)),
            }
        }
        let piece = |(start, end, node): (u64, u64, Node)| NodePiece {
            x: start,
            width: end - start,
            colour: colour(node),
            title: format!("{:#x} to {:#x}, {node}", self.edge(start), self.edge(end)),
        };
        drawn.into_iter().map(piece).collect()
    }

    /// The drawing: each step shows the kind that fills most of it.
    fn pieces(&self) -> Vec<Piece> {
        let edge = |step| self.edge(step);
        let mut drawn: Vec<(u64, u64, PageKind)> = Vec::new();
        for (step, kind) in (0..STEPS).zip(majorities(self.runs, self.cells())) {
            let Some(kind) = kind else { continue };
            // A piece ends where the windows begin or end, since the reason changes there.
            let at_edge = [self.windows.start, self.windows.end].contains(&edge(step));
            match drawn.last_mut() {
                Some((_, end, last)) if *last == kind && *end == step && !at_edge => *end += 1,
                _ => drawn.push((step, step + 1, kind)),
            }
        }
        let piece = |(start, end, kind): (u64, u64, PageKind)| {
            let (from, to) = (edge(start), edge(end));
            let mut title = format!("{from:#x} to {to:#x}, {}", kind.name());
            let why = self.why(kind, from + (to - from) / 2);
            if !why.is_empty() {
                title = format!("{title}: {why}");
            }
            Piece {
                x: start,
                width: end - start,
                kind,
                title,
            }
        };
        drawn.into_iter().map(piece).collect()
    }

    fn parts(&self) -> Vec<Part> {
        let Span { start, end } = if self.windows.is_empty() {
            Span::new(self.whole.end, self.whole.end)
        } else {
            self.windows
        };
        let windows = (start..end).step_by(self.leaf.bytes() as usize);
        let windows = windows.map(|at| Span::new(at, (at + self.leaf.bytes()).min(end)));
        let spans: Vec<Span> = std::iter::once(Span::new(self.whole.start, start))
            .chain(windows)
            .chain([Span::new(end, self.whole.end)])
            .filter(|span| !span.is_empty())
            .collect();
        let mut merged: Vec<(Span, PageKind)> = Vec::new();
        for (span, kind) in spans
            .iter()
            .zip(majorities(self.runs, spans.iter().copied()))
        {
            let kind = kind.unwrap_or(PageKind::Absent);
            let inside = self.windows.contains(span.start);
            match merged.last_mut() {
                Some((last, same))
                    if *same == kind && inside == self.windows.contains(last.start) =>
                {
                    last.end = span.end;
                }
                _ => merged.push((*span, kind)),
            }
        }
        let part = |(span, kind): (Span, PageKind)| Part {
            from: format!("{:#x}", span.start),
            size: bytes(span.len()),
            kind,
            what: kind.name(),
            why: self.why(kind, span.start),
        };
        merged.into_iter().map(part).collect()
    }
}

/// What fills most of each cell; cells and runs ascend.
pub(super) fn majorities<K: Copy + Ord>(
    runs: &[(Span, K)],
    cells: impl Iterator<Item = Span>,
) -> impl Iterator<Item = Option<K>> {
    let mut first = 0;
    cells.map(move |cell| {
        while runs
            .get(first)
            .is_some_and(|(span, _)| span.end <= cell.start)
        {
            first += 1;
        }
        let mut amounts: BTreeMap<K, u64> = BTreeMap::new();
        let here = runs
            .iter()
            .skip(first)
            .take_while(|(span, _)| span.start < cell.end);
        for (span, kind) in here {
            *amounts.entry(*kind).or_default() += span.intersect(&cell).len();
        }
        let most = amounts.into_iter().max_by_key(|(_, amount)| *amount);
        most.filter(|(_, amount)| *amount > 0).map(|(kind, _)| kind)
    })
}

/// `value` scaled to [`STEPS`], where `most` is the maximum.
pub(super) fn scale(value: u64, most: u64) -> u64 {
    value.saturating_mul(STEPS) / most.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn text(runs: &[(Span, PageKind)], windows: Span) -> StripText<'_> {
        StripText {
            name: "text".to_owned(),
            whole: Span::new(0, runs.last().unwrap().0.end),
            runs,
            nodes: &[],
            windows,
            leaf: Leaf::M2,
            causes: &[Cause::SmallFolios],
        }
    }

    #[test]
    fn a_drawing_has_bounded_pieces_in_order() {
        let page = |page: u64| {
            let kind = if page.is_multiple_of(2) {
                PageKind::Base
            } else {
                PageKind::Large
            };
            (Span::new(page * 4096, (page + 1) * 4096), kind)
        };
        let runs: Vec<(Span, PageKind)> = (0..50_000).map(page).collect();
        let drawn = text(&runs, Span::new(0, 0)).pieces();
        assert!(drawn.len() as u64 <= STEPS);
        let mut at = 0;
        for piece in drawn {
            assert_eq!(piece.x, at);
            at += piece.width;
        }
        assert_eq!(at, STEPS);
    }

    #[test]
    fn nodes_are_drawn_where_text_lies_in_memory() {
        let runs = [(Span::new(0, 10 * M), PageKind::Huge)];
        let nodes = [
            (Span::new(0, 4 * M), Node(0)),
            (Span::new(4 * M, 5 * M), Node(9)),
            (Span::new(6 * M, 8 * M), Node(9)),
        ];
        let drawn = StripText {
            nodes: &nodes,
            ..text(&runs, Span::new(0, 10 * M))
        };
        let drawn = drawn.node_pieces();
        let told: Vec<(u64, u64, u32)> = drawn.iter().map(|p| (p.x, p.width, p.colour)).collect();
        assert_eq!(told, [(0, 400, 0), (400, 100, 1), (600, 200, 1)]);
        assert!(drawn[1].title.ends_with("node 9"), "{}", drawn[1].title);
    }

    #[test]
    fn each_window_has_its_reason() {
        let runs = [
            (Span::new(0, M), PageKind::Absent),
            (Span::new(M, 2 * M), PageKind::Base),
            (Span::new(2 * M, 4 * M), PageKind::Huge),
            (Span::new(4 * M, 8 * M), PageKind::Base),
            (Span::new(8 * M, 9 * M), PageKind::Base),
        ];
        let parts = text(&runs, Span::new(2 * M, 8 * M)).parts();
        let told: Vec<(PageKind, &str)> = parts.iter().map(|p| (p.kind, p.why.as_str())).collect();
        let none = "no window lies wholly inside";
        assert_eq!(told.len(), 4);
        assert_eq!(told[0].1, none);
        assert_eq!(told[1], (PageKind::Huge, ""));
        assert_eq!(told[2], (PageKind::Base, "hugetext warm makes them huge"));
        assert_eq!(told[3], (PageKind::Base, none));
        assert_eq!(parts[2].size, "4 MiB");
    }
}
