//! Prints the predicted throughput of an exec storm: docs/rmap.md, or JSON.

use clap::Parser;
use hugetext_rmap::{File, Outcome, Scheme, Workload, simulate};
use serde::Serialize;

/// Predict process starts a second from the trips to `i_mmap` locks.
///
/// Times are in nanoseconds. The defaults are not measured: trips are counted from what the kernel
/// does for fork, exec and exit of a small program and its two libraries (docs/rmap.md lists them);
/// the times are such that one core starts some 4,000 processes a second, and that leaving the tree
/// out gains the 80 % that was reported.
#[derive(Parser, Serialize)]
struct Args {
    /// Work of one process start outside the locks
    #[arg(long, default_value_t = 200_000.0)]
    work: f64,
    /// One change of a tree, under the lock
    #[arg(long, default_value_t = 800.0)]
    tree: f64,
    /// The rest of a trip, the lock's cache line being here
    #[arg(long, default_value_t = 300.0)]
    lock: f64,
    /// What a trip takes more when another core had the lock last
    #[arg(long, default_value_t = 700.0)]
    transfer: f64,
    /// Trips to libc, the loader and the program by one fork, exec and exit
    #[arg(long, value_delimiter = ',', default_values_t = [20, 13, 15])]
    trips: Vec<u32>,
    /// Trips with fork linking in batches
    #[arg(long, value_delimiter = ',', default_values_t = [16, 10, 11])]
    batched: Vec<u32>,
    /// Shards of a file, at most; a file never has more than the cores rounded to a power of two
    #[arg(long, default_value_t = 64)]
    shards: u32,
    /// Numbers of cores
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 112, 128, 192, 256, 384])]
    cores: Vec<u32>,
    /// Process starts of each core
    #[arg(long, default_value_t = 20)]
    starts: u32,
    /// One JSON document instead of Markdown
    #[arg(long)]
    json: bool,
}

/// What a number of cores does under each scheme.
#[derive(Serialize)]
struct Row {
    one_lock: Outcome,
    lock_only: Outcome,
    shards: Outcome,
    shards_batched: Outcome,
}

impl Args {
    fn workload(&self, trips: &[u32]) -> Workload {
        let file = |(index, &trips): (usize, &u32)| File {
            name: format!("file {index}"),
            trips,
        };
        Workload {
            work_ns: self.work,
            tree_ns: self.tree,
            lock_ns: self.lock,
            transfer_ns: self.transfer,
            files: trips.iter().enumerate().map(file).collect(),
        }
    }

    fn row(&self, cores: u32) -> Row {
        let run = |trips, scheme| simulate(&self.workload(trips), scheme, cores, self.starts, 1);
        let shards = Scheme::Shards(self.shards.min(cores.next_power_of_two()));
        Row {
            one_lock: run(&self.trips, Scheme::OneLock),
            lock_only: run(&self.trips, Scheme::LockOnly),
            shards: run(&self.trips, shards),
            shards_batched: run(&self.batched, shards),
        }
    }
}

fn main() {
    let args = Args::parse();
    let rows: Vec<Row> = args.cores.iter().map(|&cores| args.row(cores)).collect();
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "schema": 1, "settings": args, "rows": rows })
        );
        return;
    }
    print!("{}", document(&args, &rows));
}

/// docs/rmap.md.
fn document(args: &Args, rows: &[Row]) -> String {
    let mut text = format!(
        "# Exec storms: what one lock for each file costs\n\n\
         Predicted by `cargo run -p hugetext-rmap`, not measured. Process starts (fork, exec, exit) a\n\
         second of all cores together, and the share of their time spent waiting for a lock.\n\n\
         One start works {:.0} us outside the locks, and takes the locks of its files {:?} times\n\
         ({:?} with fork in batches). A trip holds the lock for {:.0} ns, {:.0} of them in the tree,\n\
         and {:.0} ns longer when another core had it last.\n\n\
         | cores | one lock | waiting | lock without tree | waiting | shards | waiting | shards, batches |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n",
        args.work / 1000.0,
        args.trips,
        args.batched,
        args.lock + args.tree,
        args.tree,
        args.transfer,
    );
    for row in rows {
        let cell = |outcome: Outcome| {
            format!(
                "{:.0} | {:.0} %",
                outcome.starts_per_second,
                outcome.waiting * 100.0
            )
        };
        let line = format!(
            "| {} | {} | {} | {} | {:.0} |\n",
            row.one_lock.cores,
            cell(row.one_lock),
            cell(row.lock_only),
            cell(row.shards),
            row.shards_batched.starts_per_second
        );
        text.push_str(&line);
    }
    text
}
