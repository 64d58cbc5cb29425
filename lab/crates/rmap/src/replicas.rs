//! What lab/results/replicas.md shows of locks: what was measured in guests. lab/reports/replicas.md has the words.

use std::collections::BTreeMap;

use crate::line::{self, Line, fact};
use crate::record::{Acquisitions, Record, Side, What};

/// The kernel with every set.
const WITH: &str = "with";
/// Processors of the guests of the target.
const CPUS: u32 = 8;

/// A row of the table: the storms of one kernel with one number of copies.
struct Row {
    kernel: &'static str,
    replicas: String,
    copies: u32,
    storms: Vec<Acquisitions>,
    /// The functions that waited, and how often.
    sites: BTreeMap<String, u64>,
}

/// The contended acquisitions per storm.
struct Contended {
    mean: f64,
    /// The standard error of the mean, over the mean. A single storm has none that is known, nor have storms without
    /// contended acquisitions.
    error: Option<f64>,
}

impl Row {
    fn total(&self) -> Acquisitions {
        self.storms.iter().copied().sum()
    }

    fn contended(&self) -> Contended {
        let number = self.storms.len() as f64;
        let mean = self.total().contended as f64 / number;
        let squares = self
            .storms
            .iter()
            .map(|storm| (storm.contended as f64 - mean).powi(2));
        let variance = squares.sum::<f64>() / (number - 1.0);
        let error = (variance / number).sqrt() / mean;
        Contended {
            mean,
            error: (number > 1.0 && mean > 0.0).then_some(error),
        }
    }

    /// What is left of the contended acquisitions of `one`, with the 95 % interval of that ratio.
    fn left_of(&self, one: &Self) -> String {
        let (mine, of) = (self.contended(), one.contended());
        let ratio = mine.mean / of.mean;
        match (mine.error, of.error) {
            (Some(error), Some(error_of)) if !std::ptr::eq(self, one) => {
                let factor = (1.96 * error.hypot(error_of)).exp();
                format!(
                    "{ratio:.2} ({:.2} to {:.2})",
                    ratio / factor,
                    ratio * factor
                )
            }
            _ => format!("{ratio:.2}"),
        }
    }
}

fn rows(replicas: &[Record], rmap: &[Record]) -> Vec<Row> {
    let sides = [
        (Side::Unpatched, "unpatched"),
        (Side::Alone, "alone"),
        (Side::Without, "without"),
        (Side::With, WITH),
    ];
    let mut rows = Vec::new();
    for (side, kernel) in sides {
        let storms = Acquisitions::of(replicas, "replicas", side);
        let mut numbers: Vec<u32> = storms.iter().map(|storm| storm.replicas).collect();
        numbers.sort_unstable();
        numbers.dedup();
        rows.extend(numbers.into_iter().map(|copies| {
            Row {
                kernel,
                replicas: copies.to_string(),
                copies,
                storms: storms
                    .iter()
                    .filter(|storm| storm.replicas == copies)
                    .copied()
                    .collect(),
                sites: sites(replicas, side, copies),
            }
        }));
    }
    // The record of lab/results/rmap.md has the kernel with shards too, from other guests, without copies.
    let shards = Acquisitions::of(rmap, "storm", Side::With);
    let shards: Vec<Acquisitions> = shards
        .into_iter()
        .filter(|storm| storm.cpus == CPUS)
        .collect();
    if !shards.is_empty() {
        rows.push(Row {
            kernel: "with-elsewhere",
            replicas: String::new(),
            copies: 0,
            storms: shards,
            sites: BTreeMap::new(),
        });
    }
    rows
}

fn sites(replicas: &[Record], side: Side, copies: u32) -> BTreeMap<String, u64> {
    let mut sites = BTreeMap::new();
    for record in replicas {
        if let What::Site {
            function,
            contentions,
        } = &record.what
            && record.side == side
            && record.replicas == copies
        {
            *sites.entry(function.clone()).or_default() += contentions;
        }
    }
    sites
}

/// What is left of the contended acquisitions if every acquisition meets those of the other shells that share its copy, and no
/// others.
fn by_chance(copies: u32) -> f64 {
    let cpus = f64::from(CPUS);
    (cpus / f64::from(copies) - 1.0) / (cpus - 1.0)
}

/// `replicas` is what was measured with copies, and `rmap` what lab/results/rmap.md shows.
pub(crate) fn lines(replicas: &[Record], rmap: &[Record]) -> Vec<Line> {
    let rows = rows(replicas, rmap);
    let Some(one) = rows.iter().find(|row| row.copies == 1) else {
        return Vec::new();
    };
    let mut lines: Vec<Line> = rows.iter().map(|row| locks(row, one)).collect();
    let hosts = replicas.iter().map(|record| record.host_cpus);
    let processors = hosts.max().filter(|processors| *processors > 0);
    lines.extend(processors.map(|processors| fact("processors", processors)));
    lines.extend(judged(&rows, one));
    lines.extend(rows.iter().filter(|row| row.copies > 0).map(waited_where));
    lines
}

fn locks(row: &Row, one: &Row) -> Line {
    let total = row.total();
    let goals =
        (row.kernel == one.kernel).then(|| [1.0 / f64::from(row.copies), by_chance(row.copies)]);
    let [target, by_chance] = goals.map_or_else(Default::default, |goals| {
        goals.map(|goal| format!("{goal:.2}"))
    });
    let cells = vec![
        row.kernel.to_owned(),
        row.replicas.clone(),
        total.storms.to_string(),
        total.starts().to_string(),
        format!("{:.1}", total.per_start(total.taken as f64)),
        format!("{:.1}", total.contended_per_thousand()),
        row.left_of(one),
        target,
        by_chance,
        format!("{:.1}", total.per_start(total.waited_us)),
    ];
    line::row("locks", cells)
}

/// The facts that the sentences below the table go by.
fn judged(rows: &[Row], one: &Row) -> Vec<Line> {
    let of_one = one.total().contended_per_thousand();
    let missed = rows
        .iter()
        .filter(|row| row.kernel == one.kernel && row.copies > 1)
        .filter(|row| row.total().contended_per_thousand() / of_one > 1.0 / f64::from(row.copies));
    let missed: Vec<String> = missed.map(|row| row.replicas.clone()).collect();
    let alone = rows
        .iter()
        .find(|row| row.kernel == one.kernel && row.copies == CPUS);
    let with = || {
        let rows = rows.iter();
        rows.filter(|row| row.copies > 0 && row.kernel == WITH)
    };
    let whole: Vec<String> = with()
        .filter(|row| row.total().taken_in_shards == 0)
        .map(|row| row.replicas.clone())
        .collect();
    vec![
        fact("missed_with", missed),
        // With a copy for each shell, no shells share one.
        fact(
            "shells_share_nothing",
            alone.is_some_and(|row| row.total().contended == 0),
        ),
        fact("measured_with_every_set", with().next().is_some()),
        fact("split_no_file_with", whole),
    ]
}

fn waited_where(row: &Row) -> Line {
    let total = row.total();
    let sites: Vec<String> = row
        .sites
        .iter()
        .map(|(function, contentions)| {
            format!(
                "{function} {:.1}",
                total.per_start(*contentions as f64 * 1000.0)
            )
        })
        .collect();
    let cells = vec![
        row.kernel.to_owned(),
        row.copies.to_string(),
        sites.join(", "),
    ];
    line::row("waited", cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::parse;

    fn shown(replicas: &[Record]) -> String {
        crate::line::shown(&lines(replicas, &[]))
    }

    const RECORD: &str = r#"{"part":"replicas","side":"without","replicas":1,"date":"2026-11-22","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"replicas","side":"without","replicas":1,"date":"2026-11-22","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":40,"longest_wait_us":4.5,"wait_us":9.5,"acquisitions":4800,"hold_us":3.0}
{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":10,"longest_wait_us":4.5,"wait_us":1.0,"acquisitions":4800,"hold_us":3.0}"#;

    #[test]
    fn a_row_says_what_is_left_of_one_copy_and_what_was_not_measured() {
        let records = parse(RECORD).expect("a record");
        let text = shown(&records);
        assert!(
            text.contains("| without | 2 | 1 | 100 | 48.0 | 100.0 | 0.25 | 0.50 | 0.43 |"),
            "{text}"
        );
        assert!(text.contains("missed_with: []"), "{text}");
        assert!(text.contains("measured_with_every_set: false"), "{text}");
        let more = RECORD.replace("\"contentions\":10", "\"contentions\":30");
        let text = shown(&parse(&more).expect("a record"));
        assert!(text.contains("missed_with: [\"2\"]"), "{text}");
    }

    #[test]
    fn what_is_left_has_an_interval_and_the_functions_that_waited() {
        let again = RECORD.replace("\"contentions\":10", "\"contentions\":14");
        let record = format!(
            "{RECORD}\n{again}\n{}",
            r#"{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"site","class":"i_mmap_rwsem","function":"dup_mmap","contentions":8}"#
        );
        let text = shown(&parse(&record).expect("a record"));
        assert!(
            text.contains("| 2 | 2 | 200 | 48.0 | 120.0 | 0.30 (0.22 to 0.42) | 0.50 |"),
            "{text}"
        );
        assert!(text.contains("| without | 2 | dup_mmap 40.0 |"), "{text}");
    }

    #[test]
    fn what_all_shells_share_is_ruled_out_only_by_a_copy_for_each() {
        let ruled_out = "shells_share_nothing: true";
        assert!(!shown(&parse(RECORD).expect("a record")).contains(ruled_out));
        let eight = RECORD.replace("\"replicas\":2", "\"replicas\":8");
        let none = eight.replace("\"contentions\":10", "\"contentions\":0");
        assert!(shown(&parse(&none).expect("a record")).contains(ruled_out));
        assert!(!shown(&parse(&eight).expect("a record")).contains(ruled_out));
    }

    #[test]
    fn copies_are_compared_with_the_unpatched_kernel_if_it_was_measured() {
        let unpatched = RECORD.replace("\"without\"", "\"unpatched\"");
        let with = RECORD
            .replace("\"without\"", "\"with\"")
            .replace(":40,", ":4,");
        let text = shown(&parse(&format!("{unpatched}\n{with}")).expect("a record"));
        assert!(
            text.contains("| with | 1 | 1 | 100 | 48.0 | 40.0 | 0.10 |"),
            "{text}"
        );
        assert!(text.contains("measured_with_every_set: true"), "{text}");
        // These records have acquisitions to locks of whole files alone.
        assert!(text.contains("split_no_file_with: [\"1\",\"2\"]"), "{text}");
        let split = with.replace("i_mmap_rwsem-W", "i_mmap_shard");
        let text = shown(&parse(&format!("{unpatched}\n{split}")).expect("a record"));
        assert!(text.contains("split_no_file_with: []"), "{text}");
    }

    #[test]
    fn without_a_record_nothing_is_claimed() {
        assert_eq!(lines(&[], &[]), Vec::<Line>::new());
    }
}
