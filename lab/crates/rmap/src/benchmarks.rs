//! The section on UnixBench and will-it-scale.

use std::fmt::Write;

use crate::record::{Acquisitions, Bench, Record, Side};
use crate::report::{change, rows};

/// Kernels, in the order of the tables.
pub(crate) const SIDES: [(Side, &str); 2] =
    [(Side::Unpatched, "no set"), (Side::With, "every set")];

const BENCHES: [(Bench, &str, &str); 4] = [
    (Bench::Execl, "UnixBench, execl", "exec"),
    (Bench::Shell8, "UnixBench, shell8", "run of eight scripts"),
    (Bench::Mmap1, "will-it-scale, mmap1", "mmap and munmap"),
    (Bench::Mmap2, "will-it-scale, mmap2", "mmap and munmap"),
];

/// Empty without such storms.
pub(crate) fn section(records: &[Record]) -> String {
    let tables: String = BENCHES
        .iter()
        .map(|&(bench, name, _)| contended(records, "bench", &SIDES, bench, name))
        .collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "## UnixBench and will-it-scale\n\n\
         These are the benchmarks by which the lock was reported, from their own sources (UnixBench 6.0.0 of 2025-05-22,\n\
         will-it-scale of 2024-01-10). A copy of execl runs for each processor of the guest. shell8 starts eight scripts\n\
         together, of seven programs each, again and again. will-it-scale has no case that executes programs; in mmap2 each\n\
         process maps and unmaps a file of its own, in mmap1 no file. Their score is a time, which says little where\n\
         processors are emulated. So the acquisitions of an operation are counted. Guests of the two kernels took turns.\n\n\
         {tables}{}",
        counted(records)
    )
}

/// The storms of one benchmark.
pub(crate) fn of(records: &[Record], part: &str, side: Side, bench: Bench) -> Vec<Acquisitions> {
    let mut storms = Acquisitions::of(records, part, side);
    storms.retain(|storm| storm.bench == Some(bench));
    storms
}

/// The acquisitions of a benchmark on many processors, below its `title`.
pub(crate) fn contended(
    records: &[Record],
    part: &str,
    sides: &[(Side, &str)],
    bench: Bench,
    title: &str,
) -> String {
    let storms = |(side, kernel): &(Side, &str)| {
        let kernel = (*kernel).to_owned();
        (kernel, of(records, part, *side, bench))
    };
    let sides: Vec<_> = sides.iter().map(storms).collect();
    let rows = rows("operation", &sides);
    if rows.is_empty() {
        return rows;
    }
    format!("### {title}\n\n{rows}\n")
}

/// What an operation costs on one processor.
fn counted(records: &[Record]) -> String {
    let mut text = String::new();
    for (bench, name, each) in BENCHES {
        let costs = SIDES.map(|(side, _)| {
            let storm = of(records, "bench-count", side, bench).first().copied()?;
            Some(storm.per_start(storm.ns as f64))
        });
        let [Some(unpatched), Some(with)] = costs else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {name} | {each} | {unpatched:.0} | {with:.0} | {} |",
            change(unpatched, with),
        );
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "### Alone, in instructions\n\n\
         One copy ran on one processor, with time counted in instructions, on kernels that do not watch their locks.\n\n\
         | | operation | no set | every set | |\n|---|---|---:|---:|---:|\n{text}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::record::parse;

    #[test]
    fn benchmarks_are_apart() {
        let storm = |part: &str, side: &str, bench: &str, count: u64| {
            format!(
                r#"{{"part":"{part}","side":"{side}","date":"2026-11-27","cpus":8,"bench":"{bench}","what":"storm","count":{count},"ns":8000}}
{{"part":"{part}","side":"{side}","date":"2026-11-27","cpus":8,"bench":"{bench}","what":"lock","class":"i_mmap_rwsem-W","contentions":4,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}}
"#
            )
        };
        let record = [
            storm("bench", "unpatched", "execl", 100),
            storm("bench", "unpatched", "mmap2", 1000),
            storm("bench-count", "unpatched", "execl", 4),
            storm("bench-count", "with", "execl", 8),
        ]
        .concat();
        let text = section(&parse(&record).expect("a record"));
        assert!(text.contains("### UnixBench, execl\n"), "{text}");
        assert!(text.contains("| 8 | no set | 1 | 30.0 |"), "{text}");
        assert!(text.contains("| 8 | no set | 1 | 3.0 |"), "{text}");
        assert!(text.contains("| exec | 2000 | 1000 | -50 % |"), "{text}");
    }
}
