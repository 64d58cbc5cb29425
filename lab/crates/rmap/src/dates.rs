//! When each part of the record was measured, and where.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Record;

/// A row for each part: the days and the emulators of its lines. The sets change, so a part tells of the state of its day.
pub(crate) fn section(records: &[Record]) -> String {
    let mut parts: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for record in records {
        let (days, emulators) = parts.entry(&record.part).or_default();
        days.insert(&record.date);
        if !record.qemu.is_empty() {
            emulators.insert(&record.qemu);
        }
    }
    let joined = |words: &BTreeSet<&str>| words.iter().copied().collect::<Vec<_>>().join(", ");
    let rows = parts
        .iter()
        .map(|(part, (days, emulators))| {
            format!("| {part} | {} | {} |\n", joined(days), joined(emulators))
        })
        .collect::<String>();
    format!(
        "\n## When each part was measured\n\n\
         Parts have the names that kernel/rfc/rmap/lab/measure.sh has for them. The sets changed until 28 November 2026. A part of an\n\
         earlier day tells of the state of that day.\n\n\
         | part | days | QEMU |\n|---|---|---|\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::parse;

    #[test]
    fn a_part_has_its_days_and_emulators() {
        let records = parse(
            r#"{"part":"memory","side":"without","date":"2026-11-22","qemu":"7.2.22","what":"object","cache":"mm_struct","bytes":1,"per_slab":2}
{"part":"memory","side":"with","date":"2026-11-23","qemu":"10.0.13","what":"object","cache":"mm_struct","bytes":1,"per_slab":2}"#,
        );
        let records = records.expect("a record");
        let text = section(&records);
        assert!(
            text.contains("| memory | 2026-11-22, 2026-11-23 | 10.0.13, 7.2.22 |"),
            "{text}"
        );
    }
}
