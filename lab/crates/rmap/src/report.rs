//! kernel/rfc/rmap/results.md: the measurements.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use statrs::statistics::{Data, Max, Min, OrderStatistics};

use crate::benchmarks;
use crate::counted;
use crate::dates;
use crate::fold;
use crate::kinds;
use crate::pressure;
use crate::record::{Acquisitions, Record, Side, What};

const SIDES: [(Side, &str); 3] = [
    (Side::Without, "without"),
    (Side::OneTree, "one tree"),
    (Side::With, "with"),
];

/// The day since which addresses are fixed in storms. Records do not say it.
const FIXED_SINCE: &str = "2026-11-27";

/// How much less or more `after` is than `before`, in words.
pub(crate) fn change(before: f64, after: f64) -> String {
    if before == 0.0 {
        return String::new();
    }
    format!("{:+.0} %", (after / before - 1.0) * 100.0)
}

/// The whole document.
pub(crate) fn document(records: &[Record]) -> String {
    [
        introduction(records),
        fold::section(records),
        storms(records),
        kinds::sections(records),
        benchmarks::section(records),
        pressure::section(records),
        counted::section(records),
        memory(records),
        stress(records),
        off(records),
        compiled(records),
        dates::section(records),
    ]
    .concat()
}

fn introduction(records: &[Record]) -> String {
    // Records of an older release are beside them, without any set.
    let guests = records
        .iter()
        .filter(|record| record.side == Side::With && !record.package.is_empty());
    let emulators: BTreeSet<&str> = guests.clone().map(|record| record.qemu.as_str()).collect();
    let emulators = Vec::from_iter(emulators).join(" and ");
    let guest = guests.max_by(|a, b| a.date.cmp(&b.date));
    let origin = guest.map_or_else(String::new, |record| {
        format!("{}, QEMU {emulators}, {}.", record.package, record.date)
    });
    format!(
        "# Exec storms and the lock of a file\n\n\
         Written by `make docs-rmap` from [record.jsonl](record.jsonl), the record of `make test-rmap` and `make test-fold`.\n\
         [README.md](README.md) says what the set rmap does, the covers of [fold](../../fold/cover) and [fork](../../fork/cover)\n\
         what these do. The kernels with rmap had fork, too, and another patch, which is gone: exec mapped each image once\n\
         instead of twice. {origin}\n\n"
    )
}

fn storms(records: &[Record]) -> String {
    let sides =
        SIDES.map(|(side, name)| (name.to_owned(), Acquisitions::of(records, "storm", side)));
    let rows = rows("start", &sides);
    if rows.is_empty() {
        return rows;
    }
    let text = format!(
        "## Acquisitions of the locks, with rmap\n\n\
         As many shells as the guest has processors start a small program 160 times together: fork, exec, exit.\n\
         32 more processes wait, as on a real system. LOCK_STAT counts how often the locks of the reverse map of\n\
         files are taken (*acquisitions*), how often an acquisition waited, and how long. Of a walk over shards it counts the first\n\
         alone; but to start and end a process walks nothing. *One tree* is the kernel with rmap, set not to\n\
         split files. *To shards* is the part of the acquisitions that went to the locks of shards. Guests of the three\n\
         kernels took turns. Each row is all of its storms together, with the median and the spread of their\n\
         contended acquisitions.\n\n\
         **The guest's processors are emulated and share two real ones.** At most two of them run at a time. A\n\
         processor that is put aside while it holds a lock makes the others wait until it runs again. So few acquisitions\n\
         meet another, and those wait too long. Compare the kernels with each other, and not with a machine.\n\n\
         {rows}\n{}",
        at_random_addresses(records)
    );
    text
}

/// Which rows are of storms at random addresses.
fn at_random_addresses(records: &[Record]) -> String {
    let storms = records
        .iter()
        .filter(|record| record.part == "storm" && record.date.as_str() < FIXED_SINCE);
    let days: BTreeSet<(&str, u32)> = storms
        .map(|record| (record.date.as_str(), record.cpus))
        .collect();
    days.into_iter()
        .map(|(day, cpus)| {
            format!(
                "The rows of {cpus} processors were measured on {day} at random addresses, for which QEMU translates the text of\n\
                 each start again.\n\n"
            )
        })
        .collect()
}

/// A table of storms, by the number of processors and the kernel. Empty without storms. A storm is many of `each`.
pub(crate) fn rows(each: &str, sides: &[(String, Vec<Acquisitions>)]) -> String {
    let mut cpus: Vec<u32> = sides
        .iter()
        .flat_map(|(_, storms)| storms.iter().map(|storm| storm.cpus))
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "| processors | kernel | storms | acquisitions per {each} | | to shards | contended per 1000 {each}s | | median (spread) | waited, µs per {each} | |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for cpus in cpus {
        let mut first: Option<Acquisitions> = None;
        for (name, storms) in sides {
            let alike = storms.iter().filter(|storm| storm.cpus == cpus).copied();
            let alike: Vec<Acquisitions> = alike.collect();
            if alike.is_empty() {
                continue;
            }
            text += &row(name, &alike, first);
            first.get_or_insert(alike.into_iter().sum());
        }
    }
    text
}

/// The storms of one kernel on this many processors, next to all `before` of the first kernel.
fn row(name: &str, alike: &[Acquisitions], before: Option<Acquisitions>) -> String {
    let acquisitions: Acquisitions = alike.iter().copied().sum();
    let cell = |amount: fn(Acquisitions) -> f64| {
        let value = amount(acquisitions);
        // A percentage of what is shown as 0.0 says nothing.
        let change = before
            .map(amount)
            .filter(|before| *before >= 0.05)
            .map_or_else(String::new, |before| change(before, value));
        format!("{value:.1} | {change}")
    };
    let contended = alike.iter().map(|storm| storm.contended_per_thousand());
    let mut contended = Data::new(contended.collect::<Vec<f64>>());
    let spread = if contended.len() > 1 {
        format!(" ({:.0}–{:.0})", contended.min(), contended.max())
    } else {
        String::new()
    };
    format!(
        "| {} | {name} | {} | {} | {:.0} % | {} | {:.0}{spread} | {} |\n",
        acquisitions.cpus,
        acquisitions.storms,
        cell(|acquisitions| acquisitions.per_start(acquisitions.taken as f64)),
        acquisitions.taken_in_shards as f64 * 100.0 / acquisitions.taken.max(1) as f64,
        cell(Acquisitions::contended_per_thousand),
        contended.median(),
        cell(|acquisitions| acquisitions.per_start(acquisitions.waited_us)),
    )
}

/// The memory of every file and process, and of a split file.
fn memory(records: &[Record]) -> String {
    let objects = |side| {
        let of_side = move |record: &&Record| record.side == side;
        records
            .iter()
            .filter(of_side)
            .filter_map(|record| match &record.what {
                What::Object {
                    cache,
                    bytes,
                    per_slab,
                    ..
                } => Some((cache, *bytes, *per_slab)),
                _ => None,
            })
    };
    let mut rows = String::new();
    for (cache, bytes, per_slab) in objects(Side::Without) {
        let Some((_, with, with_per_slab)) = objects(Side::With).find(|other| other.0 == cache)
        else {
            continue;
        };
        let _ = writeln!(
            rows,
            "| {cache} | {bytes} | {with} | {per_slab} | {with_per_slab} |"
        );
    }
    if rows.is_empty() {
        return String::new();
    }
    let most = records
        .iter()
        .map(|record| record.shards)
        .max()
        .unwrap_or(0);
    format!(
        "## Memory\n\n\
         The table has the bytes that the kernel allocates for every file and every process, and how many objects a\n\
         slab holds:\n\n\
         | | without | with | a slab, without | with |\n|---|---:|---:|---:|---:|\n{rows}\n\
         A file that is split takes one more cache line for each shard. It has {most} shards at most: {} bytes. A KUnit\n\
         test checks the size of a shard.\n\n",
        most * 64
    )
}

/// The kernel with the option off.
fn off(records: &[Record]) -> String {
    let section = |record: &Record| match &record.what {
        What::Off { functions, differ } => Some(format!(
            "## With the option off\n\n\
             CI's x86-64 kernel has {functions} functions. Of these, {} differ in any instruction between the kernel\n\
             with rmap and its option off and the kernel without rmap{}\n\n",
            differ.len(),
            names(differ),
        )),
        _ => None,
    };
    records.iter().find_map(section).unwrap_or_default()
}

/// The end of a sentence that counts the functions.
fn names(all: &[String]) -> String {
    if all.is_empty() {
        return ".".to_owned();
    }
    let quoted: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
    format!(": {}.", quoted.join(", "))
}

/// The architectures for which it compiles.
fn compiled(records: &[Record]) -> String {
    let mut rows = String::new();
    let mut rest = String::new();
    for record in records {
        match &record.what {
            What::Compiled {
                name,
                config,
                compiler,
                option,
                files,
            } => {
                let option = if *option { "on" } else { "absent" };
                let _ = writeln!(
                    rows,
                    "| {name} | {config} | {compiler} | {option} | {files} | {} |",
                    record.date
                );
            }
            What::NotCompiled { files } => {
                rest = format!(
                    "These do not compile {} of the files{}\n\n",
                    files.len(),
                    names(files)
                );
            }
            _ => {}
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "## Compiled\n\n\
         These are the files that any set changes, and those that take the locks, walk the trees or use the\n\
         fields. They compile without a warning, in addition to the kernels that were booted. The option needs\n\
         an MMU and several processors.\n\n\
         | | configuration | compiler | option | files | on |\n|---|---|---:|---|---:|---|\n{rows}\n{rest}"
    )
}

fn stress(records: &[Record]) -> String {
    let kernels: String = records.iter().filter_map(stressed).collect();
    if kernels.is_empty() {
        return kernels;
    }
    format!(
        "## Stress\n\n\
         24 processes exec, fork, map and move files, and others truncate, punch, write, collapse, reclaim, compact and\n\
         migrate these. A pause of the host counts as two seconds at most. No kernel reported anything that concerns the\n\
         sets, and no worker failed. An emulated guest does far less work in that time than a machine.\n\n{kernels}"
    )
}

/// What a kernel did under stress. `None` for a record of something else.
fn stressed(record: &Record) -> Option<String> {
    let What::Stress {
        seconds,
        races,
        steps,
        audit,
        end,
        vmstat,
    } = &record.what
    else {
        return None;
    };
    let checks = match record.part.as_str() {
        "stress-debug" => "KASAN, PROVE_LOCKING and DEBUG_VM",
        "stress-rt" => "PREEMPT_RT, PROVE_LOCKING and DEBUG_VM",
        "stress-kcsan" => "KCSAN and DEBUG_VM",
        other => other,
    };
    let list = |table: &BTreeMap<String, u64>| {
        let cell = |(name, count): (&String, &u64)| format!("{} {count}", name.replace('_', " "));
        table.iter().map(cell).collect::<Vec<_>>().join(", ")
    };
    let races = if races.is_empty() {
        String::new()
    } else {
        format!(
            "- Data races of functions that no set names: {}.\n",
            races.join(", ")
        )
    };
    Some(format!(
        "### {checks}\n\n\
         {} processors, {seconds} seconds of work, on {}.\n\n\
         {races}- Steps: {}.\n- Audit with every worker stopped: {}.\n\
         - Audit after all of them had ended: {}.\n- Counted by the kernel: {}.\n\n",
        record.cpus,
        record.date,
        list(steps),
        list(audit),
        list(end),
        list(vmstat),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::parse;

    /// Two kernels under the same storm: fewer acquisitions of the second, none contended.
    const RECORD: &str = r#"{"part":"storm","side":"without","date":"2026-11-21","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"storm","side":"without","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_rwsem-W","contentions":30,"longest_wait_us":4.5,"wait_us":9.5,"acquisitions":4800,"hold_us":3.0}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"storm","count":100,"ns":5}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_shard-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":3000,"hold_us":3.0}
{"part":"storm","side":"with","date":"2026-11-21","cpus":8,"what":"lock","class":"i_mmap_root_rwsem-W","contentions":0,"longest_wait_us":0.0,"wait_us":0.0,"acquisitions":300,"hold_us":3.0}"#;

    #[test]
    fn acquisitions_are_those_of_every_storm() {
        let twice = parse(&format!("{RECORD}\n{RECORD}")).expect("a record");
        let acquisitions: Acquisitions = Acquisitions::of(&twice, "storm", Side::With)
            .into_iter()
            .sum();
        assert_eq!((acquisitions.storms, acquisitions.taken), (2, 6600));
        assert_eq!(acquisitions.per_start(acquisitions.taken as f64), 33.0);
    }

    #[test]
    fn a_storm_shows_what_changed_against_the_first_kernel() {
        let records = parse(RECORD).expect("a record");
        let text = document(&records);
        assert!(
            text.contains("| 8 | without | 1 | 48.0 |  | 0 % | 300.0 |  | 300 | 0.1 |  |"),
            "{text}"
        );
        assert!(
            text.contains(
                "| 8 | with | 1 | 33.0 | -31 % | 91 % | 0.0 | -100 % | 0 | 0.0 | -100 % |"
            ),
            "{text}"
        );
    }
}
