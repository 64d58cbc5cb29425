//! The section on storms beside reclaim, compaction and migration.

use std::fmt::Write;

use statrs::statistics::{Data, Max, Min, OrderStatistics};

use crate::record::{Load, Pressure, Record, Side, Times, What};
use crate::report::change;

/// Kernels, in the order of the columns. Those that were not measured have none.
const SIDES: [(Side, &str); 3] = [
    (Side::Unpatched, "no set"),
    (Side::OneTree, "one tree"),
    (Side::With, "every set"),
];

const LOADS: [(Load, &str); 3] = [
    (Load::Storm, "storm"),
    (Load::Pressure, "pressure"),
    (Load::Both, "both"),
];

/// A row: which load does it, its name, and the amount of one guest, `None` if nothing of the kind happened.
type Figure = (Load, &'static str, fn(&Pressure) -> Option<f64>);

const THROUGHPUT: [Figure; 7] = [
    (Load::Storm, "starts", |it| it.per_second(it.starts)),
    (Load::Pressure, "steps of reclaim", |it| {
        it.per_second(it.reclaims)
    }),
    (Load::Pressure, "steps of compaction", |it| {
        it.per_second(it.compactions)
    }),
    (Load::Pressure, "steps of migration", |it| {
        it.per_second(it.migrations)
    }),
    (Load::Pressure, "pages reclaimed", |it| {
        it.per_second(it.reclaimed)
    }),
    (Load::Pressure, "pages migrated", |it| {
        it.per_second(it.migrated)
    }),
    (Load::Pressure, "pages that could not be", |it| {
        it.per_second(it.not_migrated)
    }),
];

const WALKS: [Figure; 8] = [
    (Load::Pressure, "walks per second", |it| {
        it.per_second(it.walk.count)
    }),
    (Load::Pressure, "of these by try-lock, %", |it| {
        share(it.try_lock.count, it.walk.count)
    }),
    (Load::Pressure, "refused try-locks, %", |it| {
        share(it.refused, it.try_lock.count + it.refused)
    }),
    (Load::Pressure, "a walk, mean, µs", |it| it.walk.mean_us()),
    (Load::Pressure, "99 % of walks, less than µs", |it| {
        it.walk.below_us(0.99)
    }),
    (Load::Pressure, "the longest walk, µs", |it| {
        it.walk.longest_us()
    }),
    (Load::Pressure, "wait for the lock, mean, µs", |it| {
        it.wait.mean_us()
    }),
    (Load::Pressure, "the longest wait, µs", |it| {
        it.wait.longest_us()
    }),
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

/// Empty without such storms.
pub(crate) fn section(records: &[Record]) -> String {
    let measured = |&(side, _): &(Side, &str)| of(records, side).next().is_some();
    let sides: Vec<(Side, &str)> = SIDES.into_iter().filter(measured).collect();
    let Some(first) = records.iter().find(|record| record.part == "pressure") else {
        return String::new();
    };
    let guests =
        |&(side, _): &(Side, &str)| of(records, side).filter(|it| it.load == Load::Both).count();
    let least = sides.iter().map(guests).min().unwrap_or_default();
    let most = sides.iter().map(guests).max().unwrap_or_default();
    let rounds = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    format!(
        "## Storms beside reclaim, compaction and migration\n\n\
         {} shells on as many processors start programs again and again (*storm*). One process each reclaims, compacts, and\n\
         moves the text of these programs between two nodes of memory (*pressure*). Almost all that there is to reclaim is\n\
         the text that the storm and a waiting crowd of 32 map. Guests of each kernel, {rounds} of them, did the first, then\n\
         the second, then *both*, for {:.0} seconds each. Cells are the median of the guests, and the spread. *One tree* is the\n\
         kernel with every set, set not to split files. The last column compares every set with no set. These kernels do not\n\
         watch their locks.\n\n\
         **A second is a billion instructions of all processors together.** They take turns, and one may be put aside while\n\
         it holds a lock. So what else the machine does moves no figure, more processors do no more in a second, and the two\n\
         loads share it. These guests ran in QEMU {}. Before 8.1 a processor may wait many seconds for its turn, in the\n\
         middle of a walk. Addresses are not random in these guests, because QEMU would translate the text again for each\n\
         start.\n\n\
         ### Done per second\n\n{}\n\
         ### Walks over the mappings of files\n\n\
         Reclaim asks for references by try-lock: it gives up where somebody changes the mappings, and keeps the page. The\n\
         other walks wait. A walk is timed from before the lock until after it.\n\n{}\n{}",
        first.cpus,
        of(records, first.side)
            .next()
            .map_or(0.0, |it| it.ns as f64 / 1e9),
        first.qemu,
        table(records, &sides, &THROUGHPUT),
        table(records, &sides, &WALKS),
        splits(records),
    )
}

fn table(records: &[Record], sides: &[(Side, &str)], figures: &[Figure]) -> String {
    let names: Vec<&str> = sides.iter().map(|&(_, name)| name).collect();
    let mut text = format!(
        "| load | | {} | |\n|---|---|{}---:|\n",
        names.join(" | "),
        "---:|".repeat(sides.len())
    );
    for (load, load_name) in LOADS {
        for &(done_by, name, amount) in figures {
            if load != done_by && load != Load::Both {
                continue;
            }
            let amounts = sides.iter().map(|&(side, _)| {
                let alike = of(records, side).filter(|it| it.load == load);
                Data::new(alike.filter_map(amount).collect::<Vec<f64>>())
            });
            let mut amounts: Vec<Data<Vec<f64>>> = amounts.collect();
            if amounts.iter().all(Data::is_empty) {
                continue;
            }
            let cells: Vec<String> = amounts.iter_mut().map(cell).collect();
            let medians: Vec<f64> = amounts.iter_mut().map(OrderStatistics::median).collect();
            let change = match medians.as_slice() {
                [before, .., after] if (before + after).is_finite() => change(*before, *after),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "| {load_name} | {name} | {} | {change} |",
                cells.join(" | ")
            );
        }
    }
    text
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

/// How long files were locked to be split, under any load.
fn splits(records: &[Record]) -> String {
    let mut all = Times::default();
    for it in of(records, Side::With) {
        all.count += it.split.count;
        all.ns += it.split.ns;
        all.longest_ns = all.longest_ns.max(it.split.longest_ns);
    }
    let (Some(mean), Some(longest)) = (all.mean_us(), all.longest_us()) else {
        return String::new();
    };
    format!(
        "Files are split once, and never merged back. {} splits, nearly all beside both loads while the crowd started, took\n\
         {mean:.0} µs each, {longest:.0} at most: to allocate the shards, to wait for the lock, and to move the VMAs.\n\n",
        all.count
    )
}

#[cfg(test)]
mod tests {
    use super::section;
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
        let text = section(&parse(&text).expect("a record"));
        for row in [
            "| load | | no set | every set | |\n",
            "| both | starts | 100 (50.0–150) | 200 | +100 % |\n",
            "| storm | starts |  | 250 |  |\n",
            "| both | refused try-locks, % | 50.0 (50.0–50.0) | 1.00 | -98 % |\n",
            "| both | 99 % of walks, less than µs | 0.01 (0.01–0.01) | 0.01 | +0 % |\n",
        ] {
            assert!(text.contains(row), "{row}{text}");
        }
        assert!(text.contains("4 splits"), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_section() {
        assert_eq!(section(&[]), "");
    }
}
