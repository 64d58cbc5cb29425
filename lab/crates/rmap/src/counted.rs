//! What was counted: instructions of starts, walks and benchmarks, and bytes of files and processes.

use crate::line::{Line, change, fact, row};
use crate::record::{Bench, Record, Side, Timed, What};
use crate::storms::of;

/// The side beside which a benchmark with every set stands.
const SIDES: [Side; 2] = [Side::Unpatched, Side::With];

const BENCHES: [(Bench, &str); 4] = [
    (Bench::Execl, "execl"),
    (Bench::Shell8, "shell8"),
    (Bench::Mmap1, "mmap1"),
    (Bench::Mmap2, "mmap2"),
];

pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    [alone(records), walks(records), memory(records)].concat()
}

/// What an operation of a benchmark costs on one processor.
fn alone(records: &[Record]) -> Vec<Line> {
    let rows = BENCHES.iter().filter_map(|&(bench, name)| {
        let costs = SIDES.map(|side| {
            let storm = of(records, "bench-count", side, bench).first().copied()?;
            Some(storm.per_start(storm.ns as f64))
        });
        let [Some(unpatched), Some(with)] = costs else {
            return None;
        };
        let cells = [
            name.to_owned(),
            format!("{unpatched:.0}"),
            format!("{with:.0}"),
            change(unpatched, with),
        ];
        Some(row("alone", cells))
    });
    rows.collect()
}

/// The instructions of one start or walk: its key, the processes that wait meanwhile, and their number.
fn counted(record: &Record) -> Option<((&'static str, u32), f64)> {
    let (name, Timed { count, ns }) = match record.what {
        What::Storm(timed) => ("start", timed),
        What::RmapWalk(timed) => ("walk", timed),
        What::Truncate(timed) => ("truncate", timed),
        What::TruncateHalf(timed) => ("truncate-half", timed),
        What::HolePunch(timed) => ("hole-punch", timed),
        _ => return None,
    };
    (record.part == "count").then_some(((name, record.processes), ns as f64 / count.max(1) as f64))
}

/// Starts, and walks over libc.
fn walks(records: &[Record]) -> Vec<Line> {
    let mut rows = Vec::new();
    for record in records.iter().filter(|record| record.side == Side::With) {
        let Some((key @ (name, processes), after)) = counted(record) else {
            continue;
        };
        let of = |side| {
            records
                .iter()
                .filter(|other| other.side == side)
                .find_map(|other| counted(other).filter(|found| found.0 == key))
                .map(|(_, instructions)| instructions)
        };
        let (without, one_tree) = (of(Side::Without), of(Side::OneTree));
        let cell =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
        let ratio = without.or(one_tree).map(|before| after / before);
        let cells = [
            name.to_owned(),
            processes.to_string(),
            record.shards.to_string(),
            cell(without),
            cell(one_tree),
            format!("{after:.0}"),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
        ];
        rows.push(row("walks", cells));
    }
    rows
}

/// The memory of every file and process, and the most shards of a file.
fn memory(records: &[Record]) -> Vec<Line> {
    let objects = |side| {
        let of_side = move |record: &&Record| record.side == side;
        let objects = records.iter().filter(of_side);
        objects.filter_map(|record| match &record.what {
            What::Object {
                cache,
                bytes,
                per_slab,
            } => Some((cache, *bytes, *per_slab)),
            _ => None,
        })
    };
    let rows = objects(Side::Without).filter_map(|(cache, bytes, per_slab)| {
        let (_, with, with_per_slab) = objects(Side::With).find(|other| other.0 == cache)?;
        let sizes = [bytes, with, per_slab, with_per_slab].map(|size| size.to_string());
        let cells: Vec<String> = std::iter::once(cache.clone()).chain(sizes).collect();
        Some(row("memory", cells))
    });
    let mut lines: Vec<Line> = rows.collect();
    let shards = records.iter().map(|record| record.shards).max();
    lines.extend(shards.map(|shards| fact("shards", shards)));
    lines
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::line::shown;
    use crate::record::parse;

    #[test]
    fn walks_are_compared_with_those_of_as_many_processes() {
        let walk = |side, processes, ns| {
            format!(
                r#"{{"part":"count","side":"{side}","date":"2026-11-28","cpus":8,"shards":8,"processes":{processes},"what":"rmap walk","count":1,"ns":{ns}}}"#
            )
        };
        let record = [
            walk("without", 1000, 2000),
            walk("without", 40, 100),
            walk("with", 1000, 2020),
            walk("with", 40, 107),
        ];
        let text = shown(&lines(&parse(&record.join("\n")).expect("a record")));
        let row = "| walk | 40 | 8 | 100 |  | 107 | 1.070 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("shards: 8\n"), "{text}");
    }

    #[test]
    fn a_benchmark_alone_is_counted_by_operation() {
        let alone = |side, count| {
            format!(
                r#"{{"part":"bench-count","side":"{side}","date":"2026-11-27","cpus":1,"bench":"execl","what":"storm","count":{count},"ns":8000}}"#
            )
        };
        let record = [alone("unpatched", 4), alone("with", 8)].join("\n");
        let text = shown(&lines(&parse(&record).expect("a record")));
        assert!(text.contains("| execl | 2000 | 1000 | -50 % |"), "{text}");
    }
}
