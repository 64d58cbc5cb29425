//! The sections of docs/replicas.md about locks: what was measured in guests, and what follows for machines that
//! are not available.

use std::fmt::Write;

use hugetext_rmap::{Scheme, simulate};

use crate::prediction::{Input, STARTS};
use crate::record::{Record, Side, Trips};

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
    trips: Trips,
}

fn rows(replicas: &[Record], rmap: &[Record]) -> Vec<Row> {
    let sides = [
        (Side::Without, "without trips and rmap"),
        (Side::With, "with both"),
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
                trips: storms
                    .iter()
                    .filter(|storm| storm.replicas == copies)
                    .copied()
                    .sum(),
            }
        }));
    }
    // The record of docs/rmap.md has the kernel with shards too, from other guests, without copies.
    let shards: Trips = Trips::of(rmap, "storm", Side::With)
        .into_iter()
        .filter(|storm| storm.cpus == CPUS)
        .sum();
    if shards.storms > 0 {
        rows.push(Row {
            kernel: "with both, from docs/rmap.md",
            replicas: "none".to_owned(),
            copies: 0,
            trips: shards,
        });
    }
    rows
}

fn measured(replicas: &[Record], rmap: &[Record]) -> String {
    let rows = rows(replicas, rmap);
    let first = rows.iter().find(|row| row.copies == 1);
    let Some(first) = first else {
        return "## Locks\n\nNo guest with LOCK_STAT was measured.\n\n".to_owned();
    };
    let one = first.trips.contended_per_thousand();
    let mut text = String::from(
        "## Locks\n\n\
         Guests of 8 processors run Linux 7.3 with LOCK_STAT and the sets order, align and collapse of `kernel/`, without the\n\
         sets trips and rmap or with both, as in [rmap.md](rmap.md): 8 shells start a small program 160\n\
         times together, 32 more processes wait. Each process uses one of 1, 2, 4 or 8 copies of the shell, the loader and\n\
         libc, in turn. A trip to an i_mmap lock is *contended* if it meets another. The target for N copies is 1/N of the\n\
         contended trips of one copy. The processors of the guest are emulated. Where they share fewer real ones, fewer trips\n\
         meet, and those wait longer than on a machine.\n\n\
         | kernel | copies | storms | starts | trips per start | contended per 1000 starts | of one copy | target | waited, µs per start |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &rows {
        let contended = row.trips.contended_per_thousand();
        let target = match row.copies {
            0 => String::new(),
            copies => format!("{:.2}", 1.0 / f64::from(copies)),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} | {contended:.1} | {:.2} | {target} | {:.1} |",
            row.kernel,
            row.replicas,
            row.trips.storms,
            row.trips.starts(),
            row.trips.per_start(row.trips.taken as f64),
            contended / one,
            row.trips.per_start(row.trips.waited_us),
        );
    }
    let hosts = replicas.iter().map(|record| record.host_cpus);
    if let Some(processors) = hosts.max().filter(|processors| *processors > 0) {
        let _ = writeln!(
            text,
            "\nThe guests with copies ran on {processors} real processors."
        );
    }
    let missed = rows
        .iter()
        .filter(|row| row.kernel == first.kernel && row.copies > 1)
        .filter(|row| row.trips.contended_per_thousand() / one > 1.0 / f64::from(row.copies));
    let missed: Vec<String> = missed.map(|row| row.replicas.clone()).collect();
    text.push_str(&match missed.as_slice() {
        [] => "\nThe target is met with every number of copies on the kernel without the sets.\n\n"
            .to_owned(),
        some => format!(
            "\nThe target is missed with {} copies on the kernel without the sets.\n\n",
            some.join(" and ")
        ),
    });
    if !rows
        .iter()
        .any(|row| row.copies > 0 && row.kernel != first.kernel)
    {
        text.push_str("Copies together with kernel/rmap were not measured.\n\n");
    }
    text
}

fn predicted(rmap: &[Record]) -> String {
    let Some(input) = Input::new(rmap) else {
        return String::new();
    };
    let workload = input.workload(input.trips());
    let mut text = format!(
        "## Predicted\n\n\
         The simulation of [rmap.md](rmap.md#predicted), with its inputs: machines that were not available, on which every\n\
         core starts processes without a pause. Process starts of all cores together in a second, and the part of their\n\
         time that they wait, by the number of copies of libc, the loader and the program. The cores are divided over the\n\
         copies. To the locks, N copies are what N shards of `kernel/rmap` are; its sets also make fewer trips.\n\n\
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
            text.contains("| without trips and rmap | 2 | 1 | 100 | 48.0 | 100.0 | 0.25 | 0.50 |"),
            "{text}"
        );
        assert!(text.contains("target is met"), "{text}");
        assert!(text.contains("kernel/rmap were not measured"), "{text}");
        let more = RECORD.replace("\"contentions\":10", "\"contentions\":30");
        let text = sections(&parse(&more).expect("a record"), &[]);
        assert!(text.contains("missed with 2 copies"), "{text}");
    }

    #[test]
    fn without_a_record_nothing_is_claimed() {
        assert!(sections(&[], &[]).contains("No guest with LOCK_STAT"));
    }
}
