//! The section on starts and walks that were counted in instructions.

use std::fmt::Write as _;

use crate::record::{Record, Side, Timed, What};

/// The instructions of one start or walk: its name, the processes that wait meanwhile, and their number.
fn counted(record: &Record) -> Option<((&'static str, u32), f64)> {
    let (name, Timed { count, ns }) = match record.what {
        What::Storm(timed) => ("a process start", timed),
        What::RmapWalk(timed) => ("a walk over the mappings of a page", timed),
        What::Truncate(timed) => ("truncating the last page, and back", timed),
        What::TruncateHalf(timed) => ("truncating half of it, and back", timed),
        What::HolePunch(timed) => ("punching a hole of a page", timed),
        _ => return None,
    };
    (record.part == "count").then_some(((name, record.processes), ns as f64 / count.max(1) as f64))
}

/// The section of what was counted.
pub(crate) fn section(records: &[Record]) -> String {
    let mut text = String::from(
        "## Counted in instructions\n\n\
         QEMU counts instructions instead of time. One is one nanosecond. Caches and other processors cost nothing.\n\
         These kernels do not debug locks. The walks are over libc, which so many *processes* map. Those were\n\
         started by exec, and wait. A file has as many shards as the table says, as on a machine with as many\n\
         processors.\n\n\
         | | processes | shards | without | one tree | with | |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for record in records.iter().filter(|record| record.side == Side::With) {
        let Some((key @ (name, processes), after)) = counted(record) else {
            continue;
        };
        let of = |side| {
            records
                .iter()
                .filter(|other| other.side == side)
                .find_map(|other| counted(other).filter(|found| found.0 == key))
                .map(|(_, instructions)| instructions)
        };
        let (without, one_tree) = (of(Side::Without), of(Side::OneTree));
        let cell =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
        let ratio = without.or(one_tree).map(|before| after / before);
        let _ = writeln!(
            text,
            "| {name} | {processes} | {} | {} | {} | {after:.0} | {} |",
            record.shards,
            cell(without),
            cell(one_tree),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.3} times")),
        );
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::record::parse;

    #[test]
    fn walks_are_compared_with_those_of_as_many_processes() {
        let walk = |side, processes, ns| {
            format!(
                r#"{{"part":"count","side":"{side}","date":"2026-11-28","cpus":8,"shards":8,"processes":{processes},"what":"rmap walk","count":1,"ns":{ns}}}"#
            )
        };
        let lines = [
            walk("without", 1000, 2000),
            walk("without", 40, 100),
            walk("with", 1000, 2020),
            walk("with", 40, 107),
        ];
        let text = section(&parse(&lines.join("\n")).expect("a record"));
        let row = "| a walk over the mappings of a page | 40 | 8 | 100 |  | 107 | 1.070 times |";
        assert!(text.contains(row), "{text}");
    }
}
