//! How often one start takes the locks with the sets fold and fork, and who takes them.

use std::collections::BTreeMap;

use crate::line::{Line, change, row};
use crate::record::{Acquisitions, Record, Side, What};

const KERNELS: [(Side, &str); 4] = [
    (Side::Unpatched, "no set"),
    (Side::Fold, "fold"),
    (Side::Fork, "fork"),
    (Side::FoldFork, "fold, fork"),
];

pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    [counted(records), callers(records)].concat()
}

/// The acquisitions of a storm with one worker, which never wait, counted in instructions.
fn counted(records: &[Record]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut first = None;
    for (side, name) in KERNELS {
        let storms = Acquisitions::of(records, "acquisitions", side);
        let Some(storm) = storms.first().copied() else {
            continue;
        };
        let taken = storm.per_start(storm.taken as f64);
        let change = first.map_or_else(String::new, |first| change(first, taken));
        let held = storm.held_us * 1000.0 / storm.taken.max(1) as f64;
        let cells = [
            name.to_owned(),
            format!("{taken:.1}"),
            change,
            format!("{held:.0}"),
        ];
        lines.push(row("acquisitions", cells));
        first.get_or_insert(taken);
    }
    lines
}

/// Which calls take the locks, and how often in a start.
fn callers(records: &[Record]) -> Vec<Line> {
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
    let lines = cells.into_iter().map(|(functions, each)| {
        let each = each.iter().map(|each| format!("{each:.1}"));
        let cells: Vec<String> = std::iter::once(functions.to_owned()).chain(each).collect();
        row("callers", cells)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::line::shown;
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
        let records = parse(&(side("unpatched", 5000) + &side("fold", 2000))).expect("a record");
        let text = shown(&lines(&records));
        assert!(text.contains("| fold | 20.0 | -60 % | 2 |"), "{text}");
        assert!(
            text.contains("| dup_mmap | 50.0 | 20.0 | 0.0 | 0.0 |"),
            "{text}"
        );
        assert!(!text.contains("once"), "{text}");
    }
}
