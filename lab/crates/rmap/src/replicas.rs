//! The sections of lab/results/replicas.md about locks: what was measured in guests, and what follows for machines that
//! are not available.

use std::collections::BTreeMap;
use std::fmt::Write;

use hugetext_rmap::{Scheme, simulate};

use crate::prediction::{Input, STARTS};
use crate::record::{Record, Side, Trips, What};

/// The kernel with every set, as the table names it.
const WITH: &str = "with every set";
/// Processors of the guests of the target.
const CPUS: u32 = 8;
/// Processors of the machines in the prediction.
const CORES: [u32; 6] = [64, 112, 128, 192, 256, 384];
/// Copies of the files in the prediction.
const COPIES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Both sections. `replicas` is docs/replicas.jsonl, `rmap` docs/rmap.jsonl, which has the kernel with shards and
/// the inputs of the prediction.
pub(crate) fn sections(replicas: &[Record], rmap: &[Record]) -> String {
    measured(replicas, rmap) + &predicted(rmap)
}

/// A row of the table: the storms of one kernel with one number of copies.
struct Row {
    kernel: &'static str,
    replicas: String,
    copies: u32,
    storms: Vec<Trips>,
    /// The functions that waited, and how often.
    sites: BTreeMap<String, u64>,
}

/// The contended trips per storm.
struct Contended {
    mean: f64,
    /// The standard error of the mean, over the mean. A single storm has none that is known, nor have storms without
    /// contended trips.
    error: Option<f64>,
}

impl Row {
    fn total(&self) -> Trips {
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

    /// What is left of the contended trips of `one`, with the 95 % interval of that ratio.
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
        (Side::Alone, "with trips and rmap alone"),
        (Side::Without, "without trips and rmap"),
        (Side::With, WITH),
    ];
    let mut rows = Vec::new();
    for (side, kernel) in sides {
        let storms = Trips::of(replicas, "replicas", side);
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
    // The record of docs/rmap.md has the kernel with shards too, from other guests, without copies.
    let shards = Trips::of(rmap, "storm", Side::With);
    let shards: Vec<Trips> = shards
        .into_iter()
        .filter(|storm| storm.cpus == CPUS)
        .collect();
    if !shards.is_empty() {
        rows.push(Row {
            kernel: "with every set, from docs/rmap.md",
            replicas: "none".to_owned(),
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

/// What is left of the contended trips if every trip meets those of the other shells that share its copy, and no
/// others.
fn by_chance(copies: u32) -> f64 {
    let cpus = f64::from(CPUS);
    (cpus / f64::from(copies) - 1.0) / (cpus - 1.0)
}

fn measured(replicas: &[Record], rmap: &[Record]) -> String {
    let rows = rows(replicas, rmap);
    let Some(one) = rows.iter().find(|row| row.copies == 1) else {
        return "## Locks\n\nNo guest with LOCK_STAT was measured.\n\n".to_owned();
    };
    let mut text = String::from(
        "## Locks\n\n\
         Guests of 8 processors run Linux 7.3 with LOCK_STAT, without and with the sets of `kernel/`. 8 shells start a\n\
         small program 160 times together, and 32 more processes wait. Each process uses one of 1, 2, 4 or 8 copies of the\n\
         shell, the loader and libc, in turn. A trip to an i_mmap lock is *contended* if it meets another. The target for\n\
         N copies is 1/N of the contended trips of one copy on the first kernel of the table. Brackets hold the 95 %\n\
         interval of what is left of those. It treats storms of one guest as independent. *By chance* is what is left if\n\
         a trip meets only those of the other shells that share its copy: 7 with one copy, 3 with two, 1 with four, none\n\
         with eight. The processors of the guest are emulated. Where they share fewer real ones, fewer trips meet, and\n\
         those wait longer than on a machine: a process that holds a lock while its processor does not run keeps all\n\
         others waiting. So storms differ a lot.\n\n\
         | kernel | copies | storms | starts | trips per start | contended per 1000 starts | of one copy | target | by chance | waited, µs per start |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &rows {
        let total = row.total();
        let goals = if row.kernel == one.kernel {
            format!(
                "{:.2} | {:.2}",
                1.0 / f64::from(row.copies),
                by_chance(row.copies)
            )
        } else {
            " | ".to_owned()
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} | {:.1} | {} | {goals} | {:.1} |",
            row.kernel,
            row.replicas,
            total.storms,
            total.starts(),
            total.per_start(total.taken as f64),
            total.contended_per_thousand(),
            row.left_of(one),
            total.per_start(total.waited_us),
        );
    }
    let hosts = replicas.iter().map(|record| record.host_cpus);
    if let Some(processors) = hosts.max().filter(|processors| *processors > 0) {
        let _ = writeln!(
            text,
            "\nThe guests with copies ran on {processors} real processors, where other work moves the figures, too."
        );
    }
    text + &judged(&rows, one) + &waited_where(&rows)
}

fn judged(rows: &[Row], one: &Row) -> String {
    let mut text = String::new();
    let of_one = one.total().contended_per_thousand();
    let missed = rows
        .iter()
        .filter(|row| row.kernel == one.kernel && row.copies > 1)
        .filter(|row| row.total().contended_per_thousand() / of_one > 1.0 / f64::from(row.copies));
    let missed: Vec<String> = missed.map(|row| row.replicas.clone()).collect();
    let _ = match missed.as_slice() {
        [] => writeln!(text, "\nThe target is met with every number of copies.\n"),
        some => writeln!(
            text,
            "\nThe target is missed with {} copies.\n",
            some.join(" and ")
        ),
    };
    let alone = rows
        .iter()
        .find(|row| row.kernel == one.kernel && row.copies == CPUS);
    if alone.is_some_and(|row| row.total().contended == 0) {
        text.push_str(
            "With a copy for each shell no trip meets another. So files that all shells share cause no contended trip. The trips\n\
             that remain with fewer copies are of shells that share one.\n\n",
        );
    }
    let mut with = rows
        .iter()
        .filter(|row| row.copies > 0 && row.kernel == WITH)
        .peekable();
    if with.peek().is_none() {
        text.push_str("Copies together with kernel/rfc/rmap were not measured.\n\n");
    }
    let whole: Vec<String> = with
        .filter(|row| row.total().taken_in_shards == 0)
        .map(|row| row.replicas.clone())
        .collect();
    if !whole.is_empty() {
        let _ = writeln!(
            text,
            "With {} copies `kernel/rfc/rmap` split no file: it splits those that at least 16 address spaces execute, and fewer\n\
             share a copy here. So copies take the place of shards, and do not add to them.\n",
            whole.join(" and ")
        );
    }
    text
}

fn waited_where(rows: &[Row]) -> String {
    if rows.iter().all(|row| row.sites.is_empty()) {
        return String::new();
    }
    let mut text = String::from(
        "The functions that waited for an i_mmap lock, per 1000 starts. LOCK_STAT keeps four of each class of locks.\n\n\
         | kernel | copies | functions |\n|---|---:|---|\n",
    );
    for row in rows.iter().filter(|row| row.copies > 0) {
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
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.kernel,
            row.copies,
            sites.join(", ")
        );
    }
    text.push('\n');
    text
}

fn predicted(rmap: &[Record]) -> String {
    let Some(input) = Input::new(rmap) else {
        return String::new();
    };
    let workload = input.workload(input.trips());
    let mut text = format!(
        "## Predicted\n\n\
         The simulation of [rmap.md](../../docs/rmap.md#predicted), with its inputs: machines that were not available, on which every\n\
         core starts processes without a pause. Process starts of all cores together in a second, and the part of their\n\
         time that they wait, by the number of copies of libc, the loader and the program. The cores are divided over the\n\
         copies. To the locks, N copies are what N shards of `kernel/rfc/rmap` are; its sets also make fewer trips.\n\n\
         | cores |{}\n|---:|{}\n",
        COPIES
            .map(|copies| format!(" {copies} | waiting |"))
            .concat(),
        COPIES.map(|_| "---:|---:|").concat(),
    );
    for cores in CORES {
        let cells = COPIES.map(|copies| {
            let scheme = Scheme::Replicas(copies);
            let outcome = simulate(&workload, scheme, cores, STARTS, 1);
            format!(
                " {:.0} | {:.0} % |",
                outcome.starts_per_second,
                outcome.waiting * 100.0
            )
        });
        let _ = writeln!(text, "| {cores} |{}", cells.concat());
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::parse;

    const RECORD: &str = r#"{"part":"replicas","side":"without","replicas":1,"date":"2026-11-22","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"replicas","side":"without","replicas":1,"date":"2026-11-22","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":40,"longest_wait_us":4.5,"wait_us":9.5,"acquisitions":4800,"hold_us":3.0}
{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":10,"longest_wait_us":4.5,"wait_us":1.0,"acquisitions":4800,"hold_us":3.0}"#;

    #[test]
    fn a_row_says_what_is_left_of_one_copy_and_what_was_not_measured() {
        let records = parse(RECORD).expect("a record");
        let text = sections(&records, &[]);
        assert!(
            text.contains(
                "| without trips and rmap | 2 | 1 | 100 | 48.0 | 100.0 | 0.25 | 0.50 | 0.43 |"
            ),
            "{text}"
        );
        assert!(text.contains("target is met"), "{text}");
        assert!(text.contains("kernel/rfc/rmap were not measured"), "{text}");
        let more = RECORD.replace("\"contentions\":10", "\"contentions\":30");
        let text = sections(&parse(&more).expect("a record"), &[]);
        assert!(text.contains("missed with 2 copies"), "{text}");
    }

    #[test]
    fn what_is_left_has_an_interval_and_the_functions_that_waited() {
        let again = RECORD.replace("\"contentions\":10", "\"contentions\":14");
        let record = format!(
            "{RECORD}\n{again}\n{}",
            r#"{"part":"replicas","side":"without","replicas":2,"date":"2026-11-22","cpus":8,"what":"site","class":"i_mmap_rwsem","function":"dup_mmap","contentions":8}"#
        );
        let text = sections(&parse(&record).expect("a record"), &[]);
        assert!(
            text.contains("| 2 | 2 | 200 | 48.0 | 120.0 | 0.30 (0.22 to 0.42) | 0.50 |"),
            "{text}"
        );
        assert!(
            text.contains("| without trips and rmap | 2 | dup_mmap 40.0 |"),
            "{text}"
        );
    }

    #[test]
    fn what_all_shells_share_is_ruled_out_only_by_a_copy_for_each() {
        let ruled_out = "With a copy for each shell";
        assert!(!sections(&parse(RECORD).expect("a record"), &[]).contains(ruled_out));
        let eight = RECORD.replace("\"replicas\":2", "\"replicas\":8");
        let none = eight.replace("\"contentions\":10", "\"contentions\":0");
        assert!(sections(&parse(&none).expect("a record"), &[]).contains(ruled_out));
        assert!(!sections(&parse(&eight).expect("a record"), &[]).contains(ruled_out));
    }

    #[test]
    fn copies_are_compared_with_the_unpatched_kernel_if_it_was_measured() {
        let unpatched = RECORD.replace("\"without\"", "\"unpatched\"");
        let with = RECORD
            .replace("\"without\"", "\"with\"")
            .replace(":40,", ":4,");
        let text = sections(
            &parse(&format!("{unpatched}\n{with}")).expect("a record"),
            &[],
        );
        assert!(
            text.contains("| with every set | 1 | 1 | 100 | 48.0 | 40.0 | 0.10 |"),
            "{text}"
        );
        assert!(!text.contains("were not measured"), "{text}");
        // These records have trips to locks of whole files alone.
        assert!(
            text.contains("With 1 and 2 copies `kernel/rfc/rmap` split no file"),
            "{text}"
        );
        let split = with.replace("i_mmap_rwsem-W", "i_mmap_shard");
        let text = sections(
            &parse(&format!("{unpatched}\n{split}")).expect("a record"),
            &[],
        );
        assert!(!text.contains("split no file"), "{text}");
    }

    #[test]
    fn without_a_record_nothing_is_claimed() {
        assert!(sections(&[], &[]).contains("No guest with LOCK_STAT"));
    }
}
