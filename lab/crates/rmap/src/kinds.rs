//! The sections on storms of other kinds: programs that execute themselves, and programs with much text.

use crate::benchmarks::SIDES;
use crate::record::{Record, Side, Trips, What};
use crate::report::rows;

/// Bytes of text that each program of a storm of large programs executes.
const TEXT: u64 = 4 << 20;
/// Bytes of a leaf, and of a page.
const LEAF: u64 = 2 << 20;
const PAGE: u64 = 4 << 10;

/// Empty without such storms.
pub(crate) fn sections(records: &[Record]) -> String {
    [execl(records), large(records)].concat()
}

/// Processes that start programs by execve alone.
fn execl(records: &[Record]) -> String {
    let storms = |(side, name): (Side, &str)| (name.to_owned(), Trips::of(records, "execl", side));
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
        (Side::Alone, "trips, rmap"),
        (Side::With, "every set"),
    ];
    let storms = |(side, name): (Side, &str)| {
        let storms = Trips::of(records, "large", side);
        let all: Trips = storms.iter().copied().sum();
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
         start sets to map text. Guests of the three kernels took turns.\n\n{rows}\n{}",
        TEXT >> 20,
        counters(records),
    )
}

/// The time of the counters that all processes share, by the largest that was seen.
fn counters(records: &[Record]) -> String {
    let times = records.iter().filter_map(|record| match record.what {
        What::Service {
            page_transfer_ns: Some(page),
            leaf_transfer_ns: Some(leaf),
            ..
        } => Some((page, leaf)),
        _ => None,
    });
    let Some((page, leaf)) = times.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return String::new();
    };
    format!(
        "Every process that maps a folio changes counters in it, and a large folio has a lock for some of them\n\
         (`folio_lock_large_mapcount()`). These are shared by all processors, as the lock of a file is. Two processors that take\n\
         turns need {page:.0} ns to map and unmap a page, and {leaf:.0} ns to map and unmap a leaf (user space, the same changes\n\
         of counters in the same cache lines). A start changes those of {} pages, or of {} leaves: {:.0} µs, or {:.1} µs. The counters of\n\
         one leaf let {:.1} million starts a second through, and those of one page {:.1} million.\n\n",
        TEXT / PAGE,
        TEXT / LEAF,
        (TEXT / PAGE) as f64 * page / 1000.0,
        (TEXT / LEAF) as f64 * leaf / 1000.0,
        1000.0 / leaf,
        1000.0 / page,
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
{"part":"large","side":"with","date":"2026-11-27","cpus":8,"what":"lock","class":"i_mmap_shard-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}
{"part":"service","side":"with","date":"2026-11-27","what":"service","tree_ns":1,"lock_transfer_ns":2,"tree_transfer_ns":3,"page_transfer_ns":200,"leaf_transfer_ns":500}"#,
        )
        .expect("a record");
        let text = sections(&records);
        assert!(
            text.contains("| 8 | every set; 2.5 leaves a start | 1 | 30.0 |"),
            "{text}"
        );
        assert!(text.contains("2.0 million starts a second"), "{text}");
    }
}
