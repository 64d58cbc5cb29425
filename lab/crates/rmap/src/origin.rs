//! When each part of the record was measured, and where.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::line::{Line, fact, row};
use crate::record::{Record, Side};

pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    let mut lines: Vec<Line> = guest(records).into_iter().collect();
    lines.extend(parts(records));
    lines
}

/// The kernel and the emulators of the guests with every set.
fn guest(records: &[Record]) -> Option<Line> {
    // Records of an older release are beside them, without any set.
    let guests = records
        .iter()
        .filter(|record| record.side == Side::With && !record.package.is_empty());
    let emulators: BTreeSet<&str> = guests.clone().map(|record| record.qemu.as_str()).collect();
    let last = guests.max_by_key(|record| &record.date)?;
    let guest = json!({ "package": last.package, "qemu": emulators, "date": last.date });
    Some(fact("guest", guest))
}

/// A row for each part: the days and the emulators of its lines. The sets change, so a part tells of the state of its day.
fn parts(records: &[Record]) -> impl Iterator<Item = Line> {
    let mut parts: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for record in records {
        let (days, emulators) = parts.entry(&record.part).or_default();
        days.insert(&record.date);
        if !record.qemu.is_empty() {
            emulators.insert(&record.qemu);
        }
    }
    let joined = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(", ");
    parts.into_iter().map(move |(part, (days, emulators))| {
        row("parts", [part.to_owned(), joined(days), joined(emulators)])
    })
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::line::shown;
    use crate::record::parse;

    #[test]
    fn a_part_has_its_days_and_emulators() {
        let records = parse(
            r#"{"part":"memory","side":"without","date":"2026-11-22","qemu":"7.2.22","what":"object","cache":"mm_struct","bytes":1,"per_slab":2}
{"part":"memory","side":"with","date":"2026-11-23","package":"linux","qemu":"10.0.13","what":"object","cache":"mm_struct","bytes":1,"per_slab":2}"#,
        );
        let text = shown(&lines(&records.expect("a record")));
        assert!(
            text.contains("| memory | 2026-11-22, 2026-11-23 | 10.0.13, 7.2.22 |"),
            "{text}"
        );
        assert!(text.contains(r#""qemu":["10.0.13"]"#), "{text}");
    }
}
