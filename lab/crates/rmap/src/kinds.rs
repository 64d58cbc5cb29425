//! The sections on storms of other kinds: programs that execute themselves, and programs with much text.

use crate::benchmarks::SIDES;
use crate::record::{Acquisitions, Record, Side};
use crate::report::rows;

/// Bytes of text that each program of a storm of large programs executes.
const TEXT: u64 = 4 << 20;

/// Empty without such storms.
pub(crate) fn sections(records: &[Record]) -> String {
    [execl(records), large(records)].concat()
}

/// Processes that start programs by execve alone.
fn execl(records: &[Record]) -> String {
    let storms =
        |(side, name): (Side, &str)| (name.to_owned(), Acquisitions::of(records, "execl", side));
    let rows = rows("start", &SIDES.map(storms));
    if rows.is_empty() {
        return rows;
    }
    format!(
        "## Storms of execl\n\n\
         In the storms above each start has a fork, as in UnixBench's shell tests. In these, as in UnixBench's execl, each\n\
         process executes itself again and again. Guests of the three kernels took turns.\n\n{rows}\n"
    )
}

/// Programs with much text: whether one folio becomes what one lock was.
fn large(records: &[Record]) -> String {
    let sides = [
        (Side::Unpatched, "no set"),
        (Side::Alone, "rmap"),
        (Side::With, "every set"),
    ];
    let storms = |(side, name): (Side, &str)| {
        let storms = Acquisitions::of(records, "large", side);
        let all: Acquisitions = storms.iter().copied().sum();
        let leaves = all.per_start(all.leaves as f64);
        (format!("{name}; {leaves:.1} leaves a start"), storms)
    };
    let rows = rows("start", &sides.map(storms));
    if rows.is_empty() {
        return rows;
    }
    format!(
        "## Storms with text in huge folios\n\n\
         The programs of these storms execute {} MiB of text of their own, besides libc and ld.so. *Leaves* are PMDs that a\n\
         start sets to map text. Guests of the three kernels took turns.\n\n{rows}\n",
        TEXT >> 20,
    )
}

#[cfg(test)]
mod tests {
    use super::sections;
    use crate::record::parse;

    #[test]
    fn leaves_are_those_of_a_start() {
        let records = parse(
            r#"{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"leaves","mapped":250}
{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"lock","class":"i_mmap_shard-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}"#,
        )
        .expect("a record");
        let text = sections(&records);
        assert!(
            text.contains("| 8 | every set; 2.5 leaves a start | 1 | 30.0 |"),
            "{text}"
        );
    }
}
