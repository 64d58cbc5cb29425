//! Storms beside reclaim, compaction and migration.

use serde_json::json;
use statrs::statistics::{Data, Max, Min, OrderStatistics};

use crate::line::{Line, change, fact, row};
use crate::record::{Load, Pressure, Record, Side, Times, What};

/// Kernels, in the order of the columns.
const SIDES: [Side; 3] = [Side::Unpatched, Side::OneTree, Side::With];

const LOADS: [(Load, &str); 3] = [
    (Load::Storm, "storm"),
    (Load::Pressure, "pressure"),
    (Load::Both, "both"),
];

/// A row: which load does it, its key, and the amount of one guest, `None` if nothing of the kind happened.
type Figure = (Load, &'static str, fn(&Pressure) -> Option<f64>);

const THROUGHPUT: [Figure; 7] = [
    (Load::Storm, "starts", |it| it.per_second(it.starts)),
    (Load::Pressure, "reclaims", |it| it.per_second(it.reclaims)),
    (Load::Pressure, "compactions", |it| {
        it.per_second(it.compactions)
    }),
    (Load::Pressure, "migrations", |it| {
        it.per_second(it.migrations)
    }),
    (Load::Pressure, "reclaimed", |it| {
        it.per_second(it.reclaimed)
    }),
    (Load::Pressure, "migrated", |it| it.per_second(it.migrated)),
    (Load::Pressure, "not-migrated", |it| {
        it.per_second(it.not_migrated)
    }),
];

const WALKS: [Figure; 8] = [
    (Load::Pressure, "walks", |it| it.per_second(it.walk.count)),
    (Load::Pressure, "try-locks", |it| {
        share(it.try_lock.count, it.walk.count)
    }),
    (Load::Pressure, "refused", |it| {
        share(it.refused, it.try_lock.count + it.refused)
    }),
    (Load::Pressure, "walk-mean", |it| it.walk.mean_us()),
    (Load::Pressure, "walk-below", |it| it.walk.below_us(0.99)),
    (Load::Pressure, "walk-longest", |it| it.walk.longest_us()),
    (Load::Pressure, "wait-mean", |it| it.wait.mean_us()),
    (Load::Pressure, "wait-longest", |it| it.wait.longest_us()),
];

impl Pressure {
    fn per_second(&self, count: u64) -> Option<f64> {
        (self.ns > 0).then(|| count as f64 * 1e9 / self.ns as f64)
    }
}

impl Times {
    fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.ns as f64 / self.count as f64 / 1000.0)
    }

    fn longest_us(&self) -> Option<f64> {
        (self.count > 0).then_some(self.longest_ns as f64 / 1000.0)
    }

    /// The time, a power of two of nanoseconds, that `part` of all did not reach.
    fn below_us(&self, part: f64) -> Option<f64> {
        let wanted = self.count as f64 * part;
        let mut seen = 0;
        let mut limit = 0.001;
        for &count in &self.below {
            seen += count;
            if seen > 0 && seen as f64 >= wanted {
                return Some(limit);
            }
            limit *= 2.0;
        }
        None
    }
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 * 100.0 / all as f64)
}

/// What guests of one kernel did under a load.
fn of(records: &[Record], side: Side) -> impl Iterator<Item = &Pressure> {
    let of_side = move |record: &&Record| record.part == "pressure" && record.side == side;
    let pressure = |record| match record {
        &Record {
            what: What::Pressure(ref pressure),
            ..
        } => Some(pressure),
        _ => None,
    };
    records.iter().filter(of_side).filter_map(pressure)
}

/// Nothing without such storms.
pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    let Some(first) = records.iter().find(|record| record.part == "pressure") else {
        return Vec::new();
    };
    let guests = SIDES.map(|side| {
        let of_side = of(records, side);
        of_side.filter(|it| it.load == Load::Both).count()
    });
    let measured = guests.into_iter().filter(|guests| *guests > 0);
    let least = measured.clone().min().unwrap_or_default();
    let most = measured.max().unwrap_or_default();
    let seconds = of(records, first.side)
        .next()
        .map_or(0.0, |it| it.ns as f64 / 1e9);
    let about = json!({
        "processors": first.cpus,
        "qemu": first.qemu,
        "seconds": seconds.round() as u64,
        "guests": { "least": least, "most": most },
    });
    let mut lines = vec![fact("pressure", about)];
    lines.extend(table("throughput", records, &THROUGHPUT));
    lines.extend(table("walks_beside", records, &WALKS));
    lines.extend(splits(records));
    lines
}

fn table(name: &str, records: &[Record], figures: &[Figure]) -> Vec<Line> {
    let mut rows = Vec::new();
    for (load, load_name) in LOADS {
        for &(done_by, figure, amount) in figures {
            if load != done_by && load != Load::Both {
                continue;
            }
            let amounts = SIDES.map(|side| {
                let alike = of(records, side).filter(|it| it.load == load);
                Data::new(alike.filter_map(amount).collect::<Vec<f64>>())
            });
            if amounts.iter().all(Data::is_empty) {
                continue;
            }
            rows.push(row(name, cells(load_name, figure, amounts)));
        }
    }
    rows
}

/// The amounts of each kernel, and how those of the last compare with those of the first.
fn cells(load: &str, figure: &str, mut amounts: [Data<Vec<f64>>; SIDES.len()]) -> Vec<String> {
    let [before, .., after] = amounts.each_mut().map(OrderStatistics::median);
    let change = if (before + after).is_finite() {
        change(before, after)
    } else {
        String::new()
    };
    let mut cells = vec![load.to_owned(), figure.to_owned()];
    cells.extend(amounts.iter_mut().map(cell));
    cells.push(change);
    cells
}

/// The median of the guests, and the spread.
fn cell(amounts: &mut Data<Vec<f64>>) -> String {
    match amounts.len() {
        0 => String::new(),
        1 => number(amounts.median()),
        _ => format!(
            "{} ({}–{})",
            number(amounts.median()),
            number(amounts.min()),
            number(amounts.max())
        ),
    }
}

/// With three digits that count.
fn number(amount: f64) -> String {
    let digits = match amount {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{amount:.digits$}")
}

/// How long files were locked to be split, under any load. `None` if none was.
fn splits(records: &[Record]) -> Option<Line> {
    let mut all = Times::default();
    for it in of(records, Side::With) {
        all.count += it.split.count;
        all.ns += it.split.ns;
        all.longest_ns = all.longest_ns.max(it.split.longest_ns);
    }
    let splits = json!({
        "count": all.count,
        "mean_us": format!("{:.0}", all.mean_us()?),
        "longest_us": format!("{:.0}", all.longest_us()?),
    });
    Some(fact("splits", splits))
}

#[cfg(test)]
mod tests {
    use super::{Line, lines};
    use crate::line::shown;
    use crate::record::parse;

    fn record(side: &str, load: &str, starts: u64, refused: u64) -> String {
        let times = |count: u64| {
            format!(
                r#"{{"count":{count},"ns":{},"longest_ns":9000,"below":[0,0,{},{}]}}"#,
                count * 3000,
                count / 2,
                count - count / 2
            )
        };
        format!(
            r#"{{"part":"pressure","side":"{side}","date":"2026-11-27","cpus":8,"what":"pressure","load":"{load}","ns":2000000000,"starts":{starts},"reclaims":4,"compactions":2,"migrations":6,"reclaimed":100,"migrated":50,"not_migrated":0,"refused":{refused},"try_lock":{},"walk":{},"wait":{},"split":{}}}
"#,
            times(100 - refused),
            times(400),
            times(0),
            times(2),
        )
    }

    #[test]
    fn loads_are_compared_between_kernels() {
        let text = [
            record("unpatched", "both", 100, 50),
            record("unpatched", "both", 300, 50),
            record("with", "both", 400, 1),
            record("with", "storm", 500, 0),
        ]
        .concat();
        let text = shown(&lines(&parse(&text).expect("a record")));
        for row in [
            "| both | starts | 100 (50.0–150) |  | 200 | +100 % |\n",
            "| storm | starts |  |  | 250 |  |\n",
            "| both | refused | 50.0 (50.0–50.0) |  | 1.00 | -98 % |\n",
            "| both | walk-below | 0.01 (0.01–0.01) |  | 0.01 | +0 % |\n",
        ] {
            assert!(text.contains(row), "{row}{text}");
        }
        assert!(text.contains(r#""count":4"#), "{text}");
    }

    #[test]
    fn without_a_record_nothing_is_claimed() {
        assert_eq!(lines(&[]), Vec::<Line>::new());
    }
}
