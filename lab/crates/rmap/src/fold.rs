//! What the sets fold and fork do: acquisitions of the locks by a start, and how often these meet others.

use std::collections::BTreeMap;
use std::fmt::Write;

use hugetext_bench::Estimate;

use crate::benchmarks::{contended, of};
use crate::record::{Acquisitions, Bench, Record, Side, What};
use crate::report::change;

const KERNELS: [(Side, &str); 4] = [
    (Side::Unpatched, "no set"),
    (Side::Fold, "fold"),
    (Side::Fork, "fork"),
    (Side::FoldFork, "fold, fork"),
];

/// Kernels whose storms are compared.
const SIDES: [(Side, &str); 2] = [(Side::Unpatched, "no set"), (Side::FoldFork, "fold, fork")];

/// Empty without such measurements.
pub(crate) fn section(records: &[Record]) -> String {
    let text = counted(records) + &callers(records) + &storms(records);
    if text.is_empty() {
        return text;
    }
    format!("## Acquisitions of the locks, with fold and fork\n\n{text}")
}

/// The acquisitions of a storm with one worker, which never wait, counted in instructions.
fn counted(records: &[Record]) -> String {
    let mut text = String::new();
    let mut first = None;
    for (side, name) in KERNELS {
        let storms = Acquisitions::of(records, "acquisitions", side);
        let Some(storm) = storms.first().copied() else {
            continue;
        };
        let taken = storm.per_start(storm.taken as f64);
        let change = first.map_or_else(String::new, |first| change(first, taken));
        let held = storm.held_us * 1000.0 / storm.taken.max(1) as f64;
        let _ = writeln!(text, "| {name} | {taken:.1} | {change} | {held:.0} |");
        first.get_or_insert(taken);
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "A hundred starts of a small dynamic program by one shell on one processor: fork, exec, exit. Time is counted in\n\
         instructions, one a nanosecond.\n\n\
         | kernel | acquisitions per start | | held, ns each |\n|---|---:|---:|---:|\n{text}\n"
    )
}

/// Which calls take the locks, and how often in a start.
fn callers(records: &[Record]) -> String {
    let mut cells: BTreeMap<&str, [f64; KERNELS.len()]> = BTreeMap::new();
    for (column, (side, _)) in KERNELS.iter().enumerate() {
        let storms = Acquisitions::of(records, "acquisitions", *side);
        let starts = storms.first().map_or(1, |storm| storm.starts()).max(1);
        for record in records {
            if let What::Caller {
                functions,
                acquisitions,
            } = &record.what
                && record.part == "acquisitions"
                && record.side == *side
            {
                let row = cells.entry(functions).or_default();
                row[column] += *acquisitions as f64 / starts as f64;
            }
        }
    }
    // What happens once or twice in the hundred starts is not of a start.
    cells.retain(|_, row| row.iter().any(|each| *each >= 0.1));
    if cells.is_empty() {
        return String::new();
    }
    let mut text = String::from("Who takes them, per start.\n\n| caller |");
    for (_, name) in KERNELS {
        let _ = write!(text, " {name} |");
    }
    text += &format!("\n|---|{}\n", "---:|".repeat(KERNELS.len()));
    for (functions, row) in cells {
        let row: Vec<String> = row.iter().map(|each| format!("{each:.1}")).collect();
        let _ = writeln!(text, "| {functions} | {} |", row.join(" | "));
    }
    text + "\n"
}

/// UnixBench on several processors.
fn storms(records: &[Record]) -> String {
    let tables: String = [
        (Bench::Execl, "UnixBench, execl, with fold and fork"),
        (Bench::Shell8, "UnixBench, shell8, with fold and fork"),
    ]
    .into_iter()
    .map(|(bench, title)| {
        contended(records, "unixbench", &SIDES, bench, title) + &paired(records, bench)
    })
    .collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "A copy of execl runs for each processor of the guest. shell8 starts eight scripts together, of seven programs each,\n\
         again and again. Guests of the two kernels took turns, and shared two real processors, so the\n\
         figures differ much. [Below](#acquisitions-of-the-locks-with-rmap) is what the columns are. A storm of shell8 may be\n\
         over before a run is, so a second table has contended acquisitions of a thousand acquisitions. A storm is compared with the\n\
         one of the other kernel that came next to it.\n\n{tables}"
    )
}

/// Of a thousand acquisitions, how many met another, in each storm and in that of the other kernel in the same turn.
fn paired(records: &[Record], bench: Bench) -> String {
    let [without, with] = SIDES.map(|(side, _)| of(records, "unixbench", side, bench));
    let mut numbers: Vec<u32> = without.iter().map(|storm| storm.cpus).collect();
    numbers.dedup();
    let mut text = String::new();
    for cpus in numbers {
        let met = |storms: &[Acquisitions]| -> Vec<f64> {
            let alike = storms.iter().filter(|storm| storm.cpus == cpus);
            alike
                .map(|storm| storm.contended_per_thousand_taken())
                .collect()
        };
        let (without, with) = (met(&without), met(&with));
        let differences: Vec<f64> = without
            .iter()
            .zip(&with)
            .map(|(without, with)| with - without)
            .collect();
        let (Some(before), Some(after), Some(difference)) = (
            Estimate::of(&without),
            Estimate::of(&with),
            Estimate::of(&differences),
        ) else {
            continue;
        };
        let interval = difference.interval.map_or_else(String::new, |interval| {
            format!(" ({:+.1} to {:+.1})", interval.low, interval.high)
        });
        let _ = writeln!(
            text,
            "| {cpus} | {} | {:.1} | {:.1} | {:+.1}{interval} |",
            differences.len(),
            before.median,
            after.median,
            difference.median,
        );
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "| processors | pairs | contended per 1000 acquisitions, no set | fold, fork | difference (exact interval of 95 %) |\n\
         |---:|---:|---:|---:|---:|\n{text}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::record::parse;

    #[test]
    fn starts_are_compared_with_those_of_the_first_kernel() {
        let side = |side: &str, acquisitions: u32| {
            format!(
                r#"{{"part":"acquisitions","side":"{side}","date":"2026-11-29","cpus":1,"what":"storm","count":100,"ns":5}}
{{"part":"acquisitions","side":"{side}","date":"2026-11-29","cpus":1,"what":"lock","class":"i_mmap_rwsem-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":{acquisitions},"hold_us":3.0}}
{{"part":"acquisitions","side":"{side}","date":"2026-11-29","cpus":1,"what":"caller","functions":"dup_mmap","acquisitions":{acquisitions}}}
{{"part":"acquisitions","side":"{side}","date":"2026-11-29","cpus":1,"what":"caller","functions":"once","acquisitions":1}}
"#
            )
        };
        let text =
            section(&parse(&(side("unpatched", 5000) + &side("fold", 2000))).expect("a record"));
        assert!(text.contains("| fold | 20.0 | -60 % | 2 |"), "{text}");
        assert!(
            text.contains("| dup_mmap | 50.0 | 20.0 | 0.0 | 0.0 |"),
            "{text}"
        );
        assert!(!text.contains("once"), "{text}");
    }

    #[test]
    fn storms_are_compared_in_pairs() {
        let storm = |side: &str, contentions: u32| {
            format!(
                r#"{{"part":"unixbench","side":"{side}","date":"2026-11-30","cpus":4,"bench":"shell8","what":"storm","count":0,"ns":5}}
{{"part":"unixbench","side":"{side}","date":"2026-11-30","cpus":4,"bench":"shell8","what":"lock","class":"i_mmap_rwsem-W","contentions":{contentions},"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":1000,"hold_us":3.0}}
"#
            )
        };
        let record: String = [9, 2, 7, 4, 6, 8]
            .iter()
            .map(|contentions| {
                storm("unpatched", contentions + 10) + &storm("fold-fork", *contentions)
            })
            .collect();
        let text = section(&parse(&record).expect("a record"));
        assert!(
            text.contains("| 4 | 6 | 16.5 | 6.5 | -10.0 (-10.0 to -10.0) |"),
            "{text}"
        );
    }

    #[test]
    fn without_a_record_nothing_is_claimed() {
        assert_eq!(section(&[]), "");
    }
}
