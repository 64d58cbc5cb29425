//! Calls into text on the node that runs them, and on another one.
//!
//! One thread is bound to the processors of a node. It calls into a file of stubs whose page cache was
//! brought onto one node or another, each page once in an order at random, after it has emptied its caches
//! with other memory. So nearly every call fetches a line of text from memory. The page tables are the
//! thread's own, on its node, on all sides.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hugetext_engine::plain;
use hugetext_host::{
    Machine, MemoryPolicy, NodeInfo, Nodes, Placement, StubFile, Stubs, Whose, bind_to_processors,
    node_runs, own_processors,
};
use hugetext_leaf::Leaf;
use hugetext_leaf::replica::{Node, NodeBytes};

use hugetext_bench::Observer;
use hugetext_bench::Rounds;
use hugetext_bench::quantity::{bytes, count};
use hugetext_bench::{BenchError, BenchStop};
use hugetext_bench::{Bounds, Interrupt};
use hugetext_bench::{Comparison, Measure, Side, Unit};
use hugetext_bench::{directory, has_room};

/// Seed of the order of calls, which is the same for every side and round.
const SEED: u64 = 0x6e75_6d61;

/// What to call, and how often.
#[derive(Debug, Clone)]
pub(crate) struct NumaSettings {
    /// How many rounds.
    pub(crate) rounds: Rounds,
    /// Size of the text, in MiB.
    pub(crate) size: u64,
    /// Memory that is written before each round to empty the caches, in MiB.
    pub(crate) flush: u64,
    /// The directory for the files, which have no name and leave nothing behind; by default that for
    /// temporary files.
    pub(crate) directory: Option<PathBuf>,
    /// The benchmark ends with an error after this many seconds.
    pub(crate) timeout: u64,
}

/// Text on one node.
struct Placed {
    name: String,
    state: String,
    file: StubFile,
}

/// Times calls into text on the own node and on each other node with memory.
pub(crate) fn bench_numa(
    settings: &NumaSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let bounds = interrupt.within(settings.timeout);
    let nodes = Nodes::this();
    let (home, others) = home_and_others(&nodes)?;
    let before = own_processors();
    let bound = bind_to_processors(&home.processors);
    bound.map_err(|error| BenchError::new(home.node, plain(&error)))?;
    let compared = compare(settings, home.node, &others, &bounds, observer);
    // This thread goes on to whatever its caller has for it.
    let _ = bind_to_processors(&before);
    Ok(vec![compared?])
}

/// What this thread measures, which is bound to `home`.
fn compare(
    settings: &NumaSettings,
    home: Node,
    others: &[Node],
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Result<Comparison, BenchStop> {
    let sides = std::iter::once(home).chain(others.iter().copied());
    let sides: Vec<Placed> = sides
        .map(|node| placed(settings, node, home, bounds))
        .collect::<Result<_, _>>()?;
    let times = measure(settings, &sides, bounds, observer)?;
    Ok(comparison(settings, home, &sides, times)?)
}

/// The node that runs the calls, and the other nodes with memory.
fn home_and_others(nodes: &Nodes) -> Result<(&NodeInfo, Vec<Node>), BenchStop> {
    let memory = nodes.with_memory();
    let mut all = nodes.all().iter();
    let home = all.find(|info| memory.contains(&info.node) && !info.processors.is_empty());
    match home {
        Some(home) if memory.len() > 1 => {
            let others = memory.into_iter().filter(|node| *node != home.node);
            Ok((home, others.collect()))
        }
        _ => Err(BenchStop::No(
            BenchError::new("numa", "this machine has memory on one node only").remedy(
                "run it on a machine of two sockets, or in a guest (hugetext-lab boot --numa 2)",
            ),
        )),
    }
}

/// A file whose page cache lies on `node`.
fn placed(
    settings: &NumaSettings,
    node: Node,
    home: Node,
    bounds: &Bounds,
) -> Result<Placed, BenchStop> {
    bounds.check()?;
    let path = directory(settings.directory.as_ref());
    let leaf = Machine::this().pmd.unwrap_or(Leaf::M2);
    let len = leaf.align_up(settings.size << 20);
    has_room(&path, len)?;
    let failed = |error| BenchError::io(&path, &error);
    let policy = MemoryPolicy::set(&Placement::On(node)).map_err(failed)?;
    let place = File::open(&path).map_err(failed)?;
    let file = StubFile::new(place, len, leaf).map_err(failed)?;
    let stubs = file.map(leaf, 0).map_err(failed)?;
    stubs.call(0..pages(len));
    drop(policy);
    let found = nodes_of(&stubs, &path)?;
    let (there, all) = (found.on(node), found.total());
    // A hundredth may be elsewhere: a page that another process of the machine read.
    if all < len / 100 * 99 || there < all / 100 * 99 {
        let problem = format!("{} of {} came to lie on {node}", bytes(there), bytes(len));
        let failure = BenchError::at(&path, problem);
        return Err(BenchStop::No(
            failure.remedy("free memory on that node, or lower --size"),
        ));
    }
    Ok(Placed {
        name: if node == home {
            "local".to_owned()
        } else {
            format!("on {node}")
        },
        state: format!("{} of {} on {node}", bytes(there), bytes(all)),
        file,
    })
}

fn pages(len: u64) -> u32 {
    u32::try_from(len / rustix::param::page_size() as u64).unwrap_or(u32::MAX)
}

fn nodes_of(stubs: &Stubs, path: &Path) -> Result<NodeBytes, BenchError> {
    let runs = node_runs(Whose::Own, stubs.addresses());
    let runs = runs.map_err(|error| BenchError::io(path, &error))?;
    let parts = runs.iter().map(|run| (run.node, run.addresses.len()));
    Ok(parts.collect())
}

/// Nanoseconds of a call, one value per side and round.
fn measure(
    settings: &NumaSettings,
    sides: &[Placed],
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Result<Vec<Vec<f64>>, BenchStop> {
    let leaf = Machine::this().pmd.unwrap_or(Leaf::M2);
    let mut order: Vec<u32> = (0..pages(leaf.align_up(settings.size << 20))).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut order);
    let flush = usize::try_from(settings.flush << 20).unwrap_or(0);
    let mut other = vec![0u8; flush];
    let mut times = vec![Vec::new(); sides.len()];
    observer.begin("rounds", u64::from(settings.rounds.count));
    // The first round warms up the processor and kernel, and is not counted.
    let warm_up = (0..sides.len()).collect();
    let orders = std::iter::once(warm_up).chain(settings.rounds.orders(sides.len()));
    for (round, sequence) in orders.enumerate() {
        for index in sequence {
            let (Some(side), Some(times)) = (sides.get(index), times.get_mut(index)) else {
                continue;
            };
            bounds.check()?;
            let mapped = side.file.map(leaf, 0);
            let stubs = mapped.map_err(|error| BenchError::new(&side.name, plain(&error)))?;
            // The page faults come before the measurement.
            stubs.call(order.iter().copied());
            for byte in other.iter_mut().step_by(32) {
                *byte = byte.wrapping_add(1);
            }
            std::hint::black_box(&other);
            let begin = Instant::now();
            stubs.call(order.iter().copied());
            let elapsed = begin.elapsed().as_secs_f64();
            if round > 0 {
                times.push(elapsed);
            }
        }
        if round > 0 {
            observer.step();
        }
    }
    observer.end();
    Ok(times)
}

fn comparison(
    settings: &NumaSettings,
    home: Node,
    sides: &[Placed],
    times: Vec<Vec<f64>>,
) -> Result<Comparison, BenchError> {
    let measure = Measure::new("one call to each page", Unit::Seconds, times);
    let measure = measure.ok_or_else(|| BenchError::new("numa", "no round was measured"))?;
    let size = bytes(settings.size << 20);
    let rounds = count(settings.rounds.count, "round");
    let side = |placed: &Placed| Side {
        name: placed.name.clone(),
        state: placed.state.clone(),
    };
    Ok(Comparison {
        benchmark: "numa".to_owned(),
        title: format!("calls on {home} into {size} of text, {rounds}"),
        sides: sides.iter().map(side).collect(),
        measures: vec![measure],
        notes: vec![
            "nodes of an emulated guest are equally far; only a real machine shows a difference"
                .to_owned(),
        ],
        measured: None,
    })
}
