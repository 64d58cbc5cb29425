//! The prediction of the simulation from the measured times.

use std::fmt::Write;

use hugetext_rmap::{File, Scheme, StormOutcome, Workload, simulate};
use serde::Serialize;

use crate::record::{Record, Side, Trips, What};

/// How the trips of a start are distributed over the files, counted from the kernel's work for a
/// small program without the set.
const COUNTED: [(&str, f64); 3] = [("C library", 20.0), ("loader", 13.0), ("program", 15.0)];

/// All of them.
fn counted() -> f64 {
    COUNTED.iter().map(|(_, trips)| trips).sum()
}

const CORES: [u32; 12] = [1, 2, 4, 8, 16, 32, 64, 112, 128, 192, 256, 384];
/// Process starts of each core.
pub(crate) const STARTS: u32 = 20;

/// The measurements; times are in nanoseconds.
#[derive(Serialize)]
pub(crate) struct Input {
    /// The machine of the transfers.
    cpu: String,
    /// Trips of a start, without and with the set.
    trips: f64,
    fewer_trips: f64,
    /// A start of a kernel that does not debug locks, and the time that a trip holds the lock in a
    /// kernel that does: in instructions, one per nanosecond.
    start_ns: f64,
    hold_ns: f64,
    /// A change of the tree: a part of the time that the lock is held.
    tree_ns: f64,
    lock_transfer_ns: f64,
    tree_transfer_ns: f64,
    /// The maximum number of shards of a file: the most that was measured.
    most_shards: u32,
}

#[derive(Serialize)]
pub(crate) struct Prediction {
    input: Input,
    rows: Vec<Row>,
}

/// The throughput of a number of cores under each scheme.
#[derive(Serialize)]
struct Row {
    one_lock: StormOutcome,
    lock_only: StormOutcome,
    shards: StormOutcome,
    shards_fewer_trips: StormOutcome,
}

impl Input {
    /// `None` if the record lacks a part.
    pub(crate) fn new(records: &[Record]) -> Option<Self> {
        let one = |part, side| Trips::of(records, part, side).first().copied();
        let start = one("count", Side::Without)?;
        let before = one("trips", Side::Without)?;
        let with = one("trips", Side::With)?;
        let most_shards = records.iter().map(|record| record.shards).max()?;
        // Of several runs, the one with the two processors farthest apart, as most processors of a
        // large machine are.
        let farthest = |a: &Self, b: &Self| a.lock_transfer_ns.total_cmp(&b.lock_transfer_ns);
        let with_service = |record: &Record| match record.what {
            What::Service {
                tree_ns,
                lock_transfer_ns,
                tree_transfer_ns,
                ..
            } => Some(Self {
                cpu: record.cpu.clone(),
                trips: before.per_start(before.taken as f64),
                fewer_trips: with.per_start(with.taken as f64),
                start_ns: start.per_start(start.ns as f64),
                hold_ns: before.held_us * 1000.0 / before.taken.max(1) as f64,
                tree_ns,
                lock_transfer_ns,
                tree_transfer_ns,
                most_shards,
            }),
            _ => None,
        };
        records.iter().filter_map(with_service).max_by(farthest)
    }

    /// Trips of a start without the set.
    pub(crate) fn trips(&self) -> f64 {
        self.trips
    }

    /// The work of a start with this many trips.
    pub(crate) fn workload(&self, trips: f64) -> Workload {
        let file = |&(name, share): &(&str, f64)| File {
            name: name.to_owned(),
            trips: (share / counted() * trips).round() as u32,
        };
        Workload {
            work_ns: (self.start_ns - self.trips * self.hold_ns).max(0.0),
            tree_ns: self.tree_ns,
            lock_ns: (self.hold_ns - self.tree_ns).max(0.0),
            lock_transfer_ns: self.lock_transfer_ns,
            tree_transfer_ns: self.tree_transfer_ns,
            files: COUNTED.iter().map(file).collect(),
        }
    }

    fn row(&self, cores: u32) -> Row {
        let run = |trips, scheme| simulate(&self.workload(trips), scheme, cores, STARTS, 1);
        let shards = Scheme::Shards(self.most_shards.min(cores.next_power_of_two()));
        Row {
            one_lock: run(self.trips, Scheme::OneLock),
            lock_only: run(self.trips, Scheme::LockOnly),
            shards: run(self.trips, shards),
            shards_fewer_trips: run(self.fewer_trips, shards),
        }
    }
}

impl Prediction {
    /// `None` if the record lacks a part.
    pub(crate) fn new(records: &[Record]) -> Option<Self> {
        let input = Input::new(records)?;
        let rows = CORES.iter().map(|&cores| input.row(cores)).collect();
        Some(Self { input, rows })
    }

    /// The document's section.
    pub(crate) fn section(&self) -> String {
        let input = &self.input;
        let shares = COUNTED
            .map(|(name, trips)| format!("{trips} to the {name}"))
            .join(", ");
        let mut text = format!(
            "## Predicted\n\n\
             This is a simulation (`lab/crates/rmap`) of machines that were not available. Each core starts processes, one\n\
             after the other, and meets the others at the locks of libc, the loader and the program. Its inputs are:\n\n\
             - From guests without the set, at one nanosecond an instruction: a start takes {:.0} µs and makes\n  \
               {:.1} trips. Each trip holds a lock for {:.0} ns, as LOCK_STAT saw. With the set a start makes {:.1}.\n\
             - From user space on {}, with the series' own code on rwsems of pthreads: a change of the tree\n  \
               takes {:.0} ns. Where two processors take turns, the lock takes {:.0} ns more and the tree {:.0} ns more.\n  \
               The hypervisor places the two processors near or far; these are the largest times that were seen.\n\
             - Counted from the code: the trips go to the files as follows, {shares}.\n\n\
             The simulation leaves out that waiting cores slow down the working one, and that a cache line takes longer\n\
             between sockets. The table has the process starts of all cores together in a second, and the part of their\n\
             time that they wait:\n\n\
             | cores | one lock | waiting | lock without tree | waiting | shards | waiting | shards, fewer trips |\n\
             |---:|---:|---:|---:|---:|---:|---:|---:|\n",
            input.start_ns / 1000.0,
            input.trips,
            input.hold_ns,
            input.fewer_trips,
            input.cpu,
            input.tree_ns,
            input.lock_transfer_ns,
            input.tree_transfer_ns,
        );
        for row in &self.rows {
            let cell = |outcome: StormOutcome| {
                format!(
                    "{:.0} | {:.0} %",
                    outcome.starts_per_second,
                    outcome.waiting * 100.0
                )
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.0} |",
                row.one_lock.cores,
                cell(row.one_lock),
                cell(row.lock_only),
                cell(row.shards),
                row.shards_fewer_trips.starts_per_second
            );
        }
        text + &self.compared()
    }

    /// Compares with the figures that others reported.
    fn compared(&self) -> String {
        let gains: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.one_lock.cores >= 64)
            .map(|row| row.lock_only.starts_per_second / row.one_lock.starts_per_second)
            .collect();
        let gain = gains.iter().copied().fold(0.0, f64::max);
        let waiting = self
            .rows
            .iter()
            .find(|row| row.one_lock.cores == 112)
            .map_or(0.0, |row| row.one_lock.waiting);
        format!(
            "\nOn real machines with 64 and more cores, leaving these files out of the trees and keeping the lock was\n\
             reported to gain about 80 %; here it gains up to {:.0} %. In a profile of 112 cores 91 % of the time was\n\
             spent waiting for the lock; here it is {:.0} %.\n",
            (gain - 1.0) * 100.0,
            waiting * 100.0,
        )
    }
}
