//! Storms of starts, and how often their acquisitions of the locks met others.

use std::collections::BTreeSet;

use hugetext_bench::Estimate;
use serde_json::{Value, json};
use statrs::statistics::{Data, Max, Min, OrderStatistics};

use crate::line::{Line, change, fact, row};
use crate::record::{Acquisitions, Bench, Record, Side};

/// The kernels of a table, in its order.
type Kernels<'a> = &'a [(Side, &'a str)];

const RMAP: Kernels<'_> = &[
    (Side::Without, "without"),
    (Side::OneTree, "one tree"),
    (Side::With, "with"),
];
const SETS: Kernels<'_> = &[(Side::Unpatched, "no set"), (Side::With, "every set")];
const FOLD_FORK: Kernels<'_> = &[(Side::Unpatched, "no set"), (Side::FoldFork, "fold, fork")];
const LARGE: Kernels<'_> = &[
    (Side::Unpatched, "no set"),
    (Side::Alone, "rmap"),
    (Side::With, "every set"),
];

/// Tables of benchmarks: the part of the record, its kernels, and the benchmark.
const BENCHES: [(&str, &str, Kernels<'_>, Bench); 5] = [
    ("fold_execl", "unixbench", FOLD_FORK, Bench::Execl),
    ("fold_shell8", "unixbench", FOLD_FORK, Bench::Shell8),
    ("execl", "bench", SETS, Bench::Execl),
    ("shell8", "bench", SETS, Bench::Shell8),
    ("mmap2", "bench", SETS, Bench::Mmap2),
];

/// The day since which addresses are fixed in storms. Records do not say it.
const FIXED_SINCE: &str = "2026-11-27";

pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (table, part, kernels, bench) in BENCHES {
        let sides = storms(kernels, |side| of(records, part, side, bench));
        lines.extend(rows(table, &sides));
    }
    for (table, bench) in [
        ("fold_execl_pairs", Bench::Execl),
        ("fold_shell8_pairs", Bench::Shell8),
    ] {
        lines.extend(pairs(table, records, bench));
    }
    let part = |part, kernels| storms(kernels, |side| Acquisitions::of(records, part, side));
    lines.extend(rows("storms", &part("storm", RMAP)));
    lines.push(at_random_addresses(records));
    lines.extend(rows("execl_storms", &part("execl", SETS)));
    let large = part("large", LARGE);
    lines.push(leaves(&large));
    lines.extend(rows("large", &large));
    lines
}

/// The storms of each kernel.
fn storms<'k>(
    kernels: Kernels<'k>,
    of: impl Fn(Side) -> Vec<Acquisitions>,
) -> Vec<(&'k str, Vec<Acquisitions>)> {
    let kernels = kernels.iter();
    kernels.map(|&(side, name)| (name, of(side))).collect()
}

/// The storms of one benchmark.
pub(crate) fn of(records: &[Record], part: &str, side: Side, bench: Bench) -> Vec<Acquisitions> {
    let mut storms = Acquisitions::of(records, part, side);
    storms.retain(|storm| storm.bench == Some(bench));
    storms
}

/// How many PMDs a start of each kernel set to map text.
fn leaves(sides: &[(&str, Vec<Acquisitions>)]) -> Line {
    let leaves = sides.iter().map(|(name, storms)| {
        let all: Acquisitions = storms.iter().copied().sum();
        ((*name).to_owned(), all.per_start(all.leaves as f64).into())
    });
    fact("leaves", Value::Object(leaves.collect()))
}

/// Which rows are of storms at random addresses.
fn at_random_addresses(records: &[Record]) -> Line {
    let storms = records
        .iter()
        .filter(|record| record.part == "storm" && record.date.as_str() < FIXED_SINCE);
    let days: BTreeSet<(&str, u32)> = storms
        .map(|record| (record.date.as_str(), record.cpus))
        .collect();
    let days = days.into_iter();
    fact(
        "at_random_addresses",
        days.map(|(day, cpus)| json!({ "day": day, "processors": cpus }))
            .collect::<Vec<Value>>(),
    )
}

/// A table of storms, by the number of processors and the kernel.
fn rows(table: &str, sides: &[(&str, Vec<Acquisitions>)]) -> Vec<Line> {
    let all = sides.iter().flat_map(|(_, storms)| storms);
    let numbers: BTreeSet<u32> = all.map(|storm| storm.cpus).collect();
    let mut rows = Vec::new();
    for cpus in numbers {
        let mut first: Option<Acquisitions> = None;
        for (name, storms) in sides {
            let alike = storms.iter().filter(|storm| storm.cpus == cpus).copied();
            let alike: Vec<Acquisitions> = alike.collect();
            if alike.is_empty() {
                continue;
            }
            rows.push(row(table, cells(name, &alike, first)));
            first.get_or_insert(alike.into_iter().sum());
        }
    }
    rows
}

/// The storms of one kernel on this many processors, next to all `before` of the first kernel.
fn cells(name: &str, alike: &[Acquisitions], before: Option<Acquisitions>) -> Vec<String> {
    let acquisitions: Acquisitions = alike.iter().copied().sum();
    let compared = |amount: fn(Acquisitions) -> f64| {
        let value = amount(acquisitions);
        // A percentage of what is shown as 0.0 says nothing.
        let change = before
            .map(amount)
            .filter(|before| *before >= 0.05)
            .map_or_else(String::new, |before| change(before, value));
        [format!("{value:.1}"), change]
    };
    let [taken, taken_change] = compared(|all| all.per_start(all.taken as f64));
    let [met, met_change] = compared(Acquisitions::contended_per_thousand);
    let [waited, waited_change] = compared(|all| all.per_start(all.waited_us));
    let to_shards = acquisitions.taken_in_shards as f64 * 100.0 / acquisitions.taken.max(1) as f64;
    let contended = alike.iter().map(|storm| storm.contended_per_thousand());
    let mut contended = Data::new(contended.collect::<Vec<f64>>());
    let spread = if contended.len() > 1 {
        format!(" ({:.0}–{:.0})", contended.min(), contended.max())
    } else {
        String::new()
    };
    vec![
        acquisitions.cpus.to_string(),
        name.to_owned(),
        acquisitions.storms.to_string(),
        taken,
        taken_change,
        format!("{to_shards:.0} %"),
        met,
        met_change,
        format!("{:.0}{spread}", contended.median()),
        waited,
        waited_change,
    ]
}

/// Of a thousand acquisitions, how many met another, in each storm and in that of the other kernel in the same turn.
fn pairs(table: &str, records: &[Record], bench: Bench) -> Vec<Line> {
    let [without, with] =
        [Side::Unpatched, Side::FoldFork].map(|side| of(records, "unixbench", side, bench));
    let numbers: BTreeSet<u32> = without.iter().map(|storm| storm.cpus).collect();
    let rows = numbers.into_iter().filter_map(|cpus| {
        let met = |storms: &[Acquisitions]| -> Vec<f64> {
            let alike = storms.iter().filter(|storm| storm.cpus == cpus);
            alike
                .map(|storm| storm.contended_per_thousand_taken())
                .collect()
        };
        let (without, with) = (met(&without), met(&with));
        let both = without.iter().zip(&with);
        let differences: Vec<f64> = both.map(|(without, with)| with - without).collect();
        let [before, after] = [Estimate::of(&without)?, Estimate::of(&with)?];
        let difference = Estimate::of(&differences)?;
        let interval = difference.interval.map_or_else(String::new, |interval| {
            format!(" ({:+.1} to {:+.1})", interval.low, interval.high)
        });
        let cells = [
            cpus.to_string(),
            differences.len().to_string(),
            format!("{:.1}", before.median),
            format!("{:.1}", after.median),
            format!("{:+.1}{interval}", difference.median),
        ];
        Some(row(table, cells))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::shown;
    use crate::record::parse;

    fn table(record: &str) -> String {
        shown(&lines(&parse(record).expect("a record")))
    }

    /// Two kernels under the same storm: fewer acquisitions of the second, none contended.
    const RECORD: &str = r#"{"part":"storm","side":"without","date":"2026-11-21","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"storm","side":"without","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":30,"longest_wait_us":4.5,"wait_us":9.5,"acquisitions":4800,"hold_us":3.0}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_shard-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_root_rwsem-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":300,"hold_us":3.0}"#;

    #[test]
    fn acquisitions_are_those_of_every_storm() {
        let twice = parse(&format!("{RECORD}\n{RECORD}")).expect("a record");
        let acquisitions: Acquisitions = Acquisitions::of(&twice, "storm", Side::With)
            .into_iter()
            .sum();
        assert_eq!((acquisitions.storms, acquisitions.taken), (2, 6600));
        assert_eq!(acquisitions.per_start(acquisitions.taken as f64), 33.0);
    }

    #[test]
    fn a_storm_shows_what_changed_against_the_first_kernel() {
        let text = table(RECORD);
        for row in [
            "| 8 | without | 1 | 48.0 |  | 0 % | 300.0 |  | 300 | 0.1 |  |",
            "| 8 | with | 1 | 33.0 | -31 % | 91 % | 0.0 | -100 % | 0 | 0.0 | -100 % |",
            r#""day":"2026-11-21""#,
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }

    fn storm(part: &str, side: &str, bench: &str, count: u64, contentions: u32) -> String {
        format!(
            r#"{{"part":"{part}","side":"{side}","date":"2026-11-30","cpus":4,"bench":"{bench}","what":"storm","count":{count},"ns":8000}}
{{"part":"{part}","side":"{side}","date":"2026-11-30","cpus":4,"bench":"{bench}","what":"lock","class":"i_mmap_rwsem-W","contentions":{contentions},"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":1000,"hold_us":3.0}}
"#
        )
    }

    #[test]
    fn benchmarks_are_apart() {
        let record = [
            storm("bench", "unpatched", "execl", 100, 0),
            storm("bench", "unpatched", "mmap2", 1000, 0),
        ];
        let lines = lines(&parse(&record.concat()).expect("a record"));
        let of = |wanted: &str| {
            let of_table =
                |line: &&Line| matches!(line, Line::Row { table, .. } if table == wanted);
            let rows = lines.iter().filter(of_table);
            shown(&rows.cloned().collect::<Vec<_>>())
        };
        assert!(of("execl").starts_with("| 4 | no set | 1 | 10.0 |"));
        assert!(of("mmap2").starts_with("| 4 | no set | 1 | 1.0 |"));
    }

    #[test]
    fn storms_are_compared_in_pairs() {
        let pair = |contentions: &u32| {
            storm("unixbench", "unpatched", "shell8", 0, contentions + 10)
                + &storm("unixbench", "fold-fork", "shell8", 0, *contentions)
        };
        let text = table(&[9, 2, 7, 4, 6, 8].iter().map(pair).collect::<String>());
        assert!(
            text.contains("| 4 | 6 | 16.5 | 6.5 | -10.0 (-10.0 to -10.0) |"),
            "{text}"
        );
    }

    #[test]
    fn leaves_are_those_of_a_start() {
        let text = table(
            r#"{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"leaves","mapped":250}
{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"lock","class":"i_mmap_shard-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}"#,
        );
        assert!(text.contains("| 8 | every set | 1 | 30.0 |"), "{text}");
        assert!(text.contains(r#""every set":2.5"#), "{text}");
    }
}
