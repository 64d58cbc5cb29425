//! What the sets fold and fork do: acquisitions of the locks by a start, and how often these meet others.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::benchmarks::contended;
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
    .map(|(bench, title)| contended(records, "unixbench", &SIDES, bench, title))
    .collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "A copy of execl runs for each processor of the guest. shell8 starts eight scripts together, of seven programs each,\n\
         again and again. Guests of the two kernels took turns, and shared two real processors with other work, so the\n\
         figures differ much. [Below](#acquisitions-of-the-locks-with-rmap) is what the columns are.\n\n{tables}"
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
    fn without_a_record_nothing_is_claimed() {
        assert_eq!(section(&[]), "");
    }
}
