//! Draws the text of processes to scale: the pages that map each part of it.

use hugetext_leaf::Span;
use serde::Serialize;

use super::record::{ProcessRecord, Recorded};
use super::strip::{PageKind, majorities};
use crate::table::{bytes, count, grouped};

/// Lengths in the units of the viewBox, which a browser shows as pixels.
const WIDTH: f64 = 840.0;
const MARGIN: f64 = 24.0;
const STRIP: f64 = 20.0;
/// The gap between the mappings of one file.
const GAP: f64 = 6.0;
/// The distance from the label of one strip to that of the next.
const LINE: f64 = 54.0;
/// Leaves that would be narrower are drawn as one piece.
const TILE: f64 = 3.0;
/// A file whose text is shorter than this part of the longest one's is counted but not drawn.
const SMALL: u64 = 20;

/// The values that the template shows.
#[derive(Debug, Serialize)]
pub(super) struct Drawing {
    width: f64,
    height: f64,
    margin: f64,
    strip: f64,
    title: String,
    scenes: Vec<Scene>,
    keys: Vec<Key>,
}

/// A process.
#[derive(Debug, Serialize)]
struct Scene {
    y: f64,
    title: String,
    summary: String,
    files: Vec<File>,
    /// Files that are counted but not drawn.
    rest: String,
    rest_y: f64,
}

/// The mappings of one file, side by side.
#[derive(Debug, Serialize)]
struct File {
    y: f64,
    name: String,
    amount: String,
    rects: Vec<Rect>,
}

#[derive(Debug, Serialize)]
struct Rect {
    x: f64,
    width: f64,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Key {
    x: f64,
    class: &'static str,
    text: String,
}

impl Drawing {
    /// Draws the processes one below the other, all to the same scale.
    pub(super) fn new(records: &[ProcessRecord]) -> Drawing {
        let lengths = records.iter().flat_map(|record| files(&record.texts));
        let longest = lengths
            .max_by_key(|texts| length(texts))
            .unwrap_or_default();
        let gaps = GAP * longest.len().saturating_sub(1) as f64;
        let scale = Scale {
            smallest: length(longest) / SMALL,
            per_byte: (WIDTH - 2.0 * MARGIN - gaps) / (length(longest).max(1) as f64),
        };
        let mut y = MARGIN;
        let scenes: Vec<Scene> = records
            .iter()
            .map(|record| scene(record, &scale, &mut y))
            .collect();
        let titles: Vec<String> = scenes
            .iter()
            .map(|scene| format!("{}: {}", scene.title, scene.summary))
            .collect();
        Drawing {
            width: WIDTH,
            height: y + MARGIN + 12.0,
            margin: MARGIN,
            strip: STRIP,
            title: titles.join("; "),
            scenes,
            keys: records.first().map_or_else(Vec::new, keys),
        }
    }
}

struct Scale {
    /// A file with less text than these bytes is counted but not drawn.
    smallest: u64,
    per_byte: f64,
}

/// Draws from `y` on, and moves `y` below the drawing.
fn scene(record: &ProcessRecord, scale: &Scale, y: &mut f64) -> Scene {
    let title_y = *y + 14.0;
    *y = title_y + 56.0;
    let (drawn, rest): (Vec<&[Recorded]>, Vec<&[Recorded]>) =
        files(&record.texts).partition(|texts| length(texts) >= scale.smallest.max(1));
    let mut shown = Vec::new();
    for texts in drawn {
        shown.push(File {
            y: *y,
            name: texts
                .first()
                .map_or_else(String::new, |text| text.file.clone()),
            amount: format!("{} of text", bytes(length(texts))),
            rects: rects(texts, record.leaf, scale),
        });
        *y += LINE;
    }
    let rest_y = *y - 14.0;
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!(
            "and {} with {} of text",
            count(rest.len(), "other"),
            bytes(rest.iter().map(|texts| length(texts)).sum())
        )
    };
    *y = rest_y + 26.0;
    Scene {
        y: title_y,
        title: record.title.clone(),
        summary: summary(record),
        files: shown,
        rest,
        rest_y,
    }
}

/// How much text is in memory, and how many page-table entries map it.
fn summary(record: &ProcessRecord) -> String {
    let amount = |wanted: fn(PageKind) -> bool| {
        let runs = record.texts.iter().flat_map(|text| &text.runs);
        let runs = runs.filter(|run| wanted(run.kind));
        runs.fold(0u64, |sum, run| sum.saturating_add(run.span().len()))
    };
    let huge = amount(|kind| kind == PageKind::Huge);
    let small = amount(|kind| class(kind) == Some("small"));
    let entries = huge / record.leaf + small / record.page;
    format!(
        "{} page-table entries map {} of text, {} of it by huge leaves",
        grouped(entries),
        bytes(huge.saturating_add(small)),
        bytes(huge)
    )
}

fn keys(record: &ProcessRecord) -> Vec<Key> {
    let page = bytes(record.page);
    let texts = [
        ("huge", format!("one {} leaf", bytes(record.leaf))),
        ("small", format!("{page} pages")),
        ("absent", "not touched".to_owned()),
    ];
    let mut x = MARGIN;
    let key = |(class, text): (&'static str, String)| {
        let key = Key { x, class, text };
        x += 140.0;
        key
    };
    texts.into_iter().map(key).collect()
}

/// The texts of one file each.
fn files(texts: &[Recorded]) -> impl Iterator<Item = &[Recorded]> {
    texts.chunk_by(|one, next| one.file == next.file)
}

fn length(texts: &[Recorded]) -> u64 {
    texts
        .iter()
        .fold(0, |sum: u64, text| sum.saturating_add(whole(text).len()))
}

fn whole(text: &Recorded) -> Span {
    match (text.runs.first(), text.runs.last()) {
        (Some(first), Some(last)) => Span::new(first.start, last.end),
        _ => Span::new(0, 0),
    }
}

fn class(kind: PageKind) -> Option<&'static str> {
    match kind {
        PageKind::Huge => Some("huge"),
        PageKind::Large | PageKind::Base => Some("small"),
        PageKind::Absent | PageKind::Outside => None,
    }
}

fn rects(texts: &[Recorded], leaf: u64, scale: &Scale) -> Vec<Rect> {
    let mut rects = Vec::new();
    let mut left = MARGIN;
    for text in texts {
        let whole = whole(text);
        let width = whole.len() as f64 * scale.per_byte;
        let x = |at: u64| left + at.saturating_sub(whole.start) as f64 * scale.per_byte;
        let mut add = |from: u64, to: u64, gap: f64, class: &'static str| {
            rects.push(Rect {
                x: tenths(x(from)),
                width: tenths((x(to) - x(from) - gap).max(0.1)),
                class,
            });
        };
        add(whole.start, whole.end, 0.0, "absent");
        for (span, class) in small_pieces(text, whole, width) {
            add(span.start, span.end, 0.0, class);
        }
        for run in text.runs.iter().filter(|run| run.kind == PageKind::Huge) {
            let tile = leaf as f64 * scale.per_byte;
            let step = if tile < TILE { run.span().len() } else { leaf };
            for start in (run.start..run.end).step_by(step as usize) {
                let end = start.saturating_add(step).min(run.end);
                add(start, end, if tile < TILE { 0.0 } else { 1.0 }, "huge");
            }
        }
        left += width + GAP;
    }
    rects
}

/// The text that small pages map, at least one unit wide.
fn small_pieces(text: &Recorded, whole: Span, width: f64) -> Vec<(Span, &'static str)> {
    let runs: Vec<(Span, PageKind)> = text.runs.iter().map(|run| (run.span(), run.kind)).collect();
    let cells = (width.ceil() as u64).max(1);
    let step = whole.len().div_ceil(cells).max(1);
    let cells: Vec<Span> = (whole.start..whole.end)
        .step_by(step as usize)
        .map(|start| Span::new(start, (start + step).min(whole.end)))
        .collect();
    let mut pieces: Vec<(Span, &'static str)> = Vec::new();
    for (cell, kind) in cells.iter().zip(majorities(&runs, cells.iter().copied())) {
        let Some(class @ "small") = kind.and_then(class) else {
            continue;
        };
        match pieces.last_mut() {
            Some((span, _)) if span.end == cell.start => span.end = cell.end,
            _ => pieces.push((*cell, class)),
        }
    }
    pieces
}

/// Finer steps are invisible and make the file longer.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::record::Run;
    use super::*;

    const M: u64 = 1 << 20;

    fn run(start: u64, end: u64, kind: PageKind) -> Run {
        Run { start, end, kind }
    }

    #[test]
    fn leaves_are_tiles_and_entries_are_counted() {
        let text = Recorded {
            file: "f".to_owned(),
            runs: vec![
                run(2 * M, 6 * M, PageKind::Huge),
                run(6 * M, 7 * M, PageKind::Base),
                run(7 * M, 8 * M, PageKind::Absent),
            ],
        };
        let record: ProcessRecord = serde_json::from_value(serde_json::json!({
            "schema": 1, "title": "t", "page": 4096, "leaf": 2 * M, "texts": [text],
        }))
        .unwrap();
        let drawing = Drawing::new(&[record]);
        let scene = &drawing.scenes[0];
        assert_eq!(
            scene.summary,
            "258 page-table entries map 5 MiB of text, 4 MiB of it by huge leaves"
        );
        let classes = scene.files[0].rects.iter().map(|rect| rect.class);
        let classes: Vec<&str> = classes.collect();
        assert_eq!(classes, ["absent", "small", "huge", "huge"]);
        let inside = |rect: &Rect| rect.x >= MARGIN && rect.x + rect.width <= WIDTH - MARGIN + 0.2;
        assert!(scene.files[0].rects.iter().all(inside));
    }
}
