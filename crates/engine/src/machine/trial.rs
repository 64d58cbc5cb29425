//! Calls that are timed, to tell what leaves are worth to text that runs on this machine.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use hugetext_host::{
    Paging, StubFile, Stubs, even_lines, gathered_lines, is_emulated, memory_limit, scattered_lines,
};
use hugetext_leaf::Leaf;
use hugetext_leaf::hold::SystemCallCost;
use hugetext_leaf::verdict::{CallTimes, Doubt, Judgement, judge};

/// Pages that one pass calls: four times as many as the largest second level of an instruction TLB holds (2,048 on
/// Zen 5), and in so few leaves that small second levels hold them all.
const PAGES: u32 = 8192;
/// Pages in use between two system calls: more than the first level of a TLB holds, and fewer than the second.
const PAGES_BETWEEN_CALLS: u32 = 256;
/// Passes over these pages that are timed together.
const PASSES_BETWEEN_CALLS: u32 = 8;
/// Blocks of a trial. Each has a verdict of its own, so that they can disagree.
const BLOCKS: usize = 10;
/// Rounds of a block. The fastest counts, because whatever else runs can only make one slower.
const ROUNDS: usize = 24;
/// No further block begins after this long.
const LONGEST: Duration = Duration::from_millis(1200);
/// Larger leaves are not tried: they need as much memory.
const LARGEST_TRIED: Leaf = Leaf::M32;
/// A control group with less memory than this is left alone: the trial takes 64 MiB, and 256 MiB with base pages of
/// 16K.
const LEAST_MEMORY: u64 = 512 << 20;

/// Tries what leaves are worth on this machine, in about a second at most.
///
/// It compares text in small folios, text in huge folios behind tables of pages, and the same folios behind leaves: a
/// leaf is used if the address is congruent to the offset, and only then. The text is a file in memory, so no filesystem
/// and no capability matters.
pub(super) fn try_machine() -> Judgement {
    let paging = Paging::this();
    let Some(leaf) = paging.pmd.filter(|leaf| *leaf > paging.page) else {
        // Every kernel has this directory, with huge pages or without.
        let is_told = Path::new("/sys/kernel/mm").exists();
        let doubt = if is_told {
            Doubt::NoHugePages
        } else {
            Doubt::NoSys
        };
        return Judgement::doubtful(doubt);
    };
    match try_leaf(paging.page, leaf) {
        Ok(blocks) => judge(&blocks),
        Err(doubt) => Judgement::doubtful(doubt),
    }
}

fn try_leaf(page: Leaf, leaf: Leaf) -> Result<Vec<CallTimes>, Doubt> {
    if is_emulated() {
        return Err(Doubt::Emulated);
    }
    if leaf > LARGEST_TRIED {
        return Err(Doubt::LargeWindows);
    }
    let limit = memory_limit().ok().flatten();
    if limit.is_some_and(|limit| limit < LEAST_MEMORY) {
        return Err(Doubt::NoMemory);
    }
    let size = leaf.align_up(u64::from(PAGES) * page.bytes());
    let unavailable = |error: io::Error| match error.kind() {
        io::ErrorKind::Unsupported => Doubt::UnknownArchitecture,
        _ => Doubt::NoMemory,
    };
    let trial = Trial::new(page, leaf, size).map_err(unavailable)?;
    if trial.leaves.pmd_mapped().unwrap_or(0) < size {
        return Err(Doubt::NoLeaves);
    }
    let begun = Instant::now();
    let blocks = (0..BLOCKS).take_while(|block| *block == 0 || begun.elapsed() < LONGEST);
    Ok(blocks.map(|_| trial.block()).collect())
}

/// The same text, mapped in three ways, and the lines of it that are called.
struct Trial {
    small: Stubs,
    tables: Stubs,
    leaves: Stubs,
    scattered: Vec<u64>,
    gathered: Vec<u64>,
    between_calls: Vec<u64>,
}

impl Trial {
    fn new(page: Leaf, leaf: Leaf, size: u64) -> io::Result<Trial> {
        let huge = StubFile::in_memory(size, leaf)?;
        let leaves = huge.map(leaf, 0)?;
        // Where it fails, the leaves are missed below.
        let _ = leaves.collapse();
        Ok(Trial {
            small: StubFile::in_memory(size, leaf)?.map(leaf, 0)?,
            tables: huge.map(leaf, page.bytes())?,
            leaves,
            scattered: even_lines(PAGES, page),
            gathered: gathered_lines(PAGES, page),
            between_calls: scattered_lines(PAGES_BETWEEN_CALLS, page),
        })
    }

    /// The fastest passes of some rounds. The sides take turns within a round.
    fn block(&self) -> CallTimes {
        let mut fastest = Fastest::default();
        for _ in 0..ROUNDS {
            fastest.small.see(pass(&self.small, &self.scattered));
            fastest.tables.see(pass(&self.tables, &self.scattered));
            fastest.leaves.see(pass(&self.leaves, &self.scattered));
            fastest.gathered.see(pass(&self.small, &self.gathered));
            let (alone, after) = self.around_calls(&self.leaves);
            fastest.leaves_alone.see(alone);
            fastest.leaves_after.see(after);
            let (_, after) = self.around_calls(&self.tables);
            fastest.tables_after.see(after);
        }
        let cost = fastest.leaves_after.0 - fastest.tables_after.0;
        CallTimes {
            small: fastest.small.0,
            tables: fastest.tables.0,
            leaves: fastest.leaves.0,
            gathered: fastest.gathered.0,
            system_call: SystemCallCost(cost / fastest.leaves_alone.0.max(1e-9)),
        }
    }

    /// Nanoseconds of a call, without and with a system call before each pass.
    fn around_calls(&self, stubs: &Stubs) -> (f64, f64) {
        let lines = &self.between_calls;
        let call = || {
            black_box(std::os::unix::process::parent_id());
        };
        let alone = stubs.passes(PASSES_BETWEEN_CALLS, lines, &|| {});
        let after = stubs.passes(PASSES_BETWEEN_CALLS, lines, &call);
        let calls = PASSES_BETWEEN_CALLS as usize * lines.len();
        (per_call(alone, calls), per_call(after, calls))
    }
}

/// The least nanoseconds of each kind of pass.
#[derive(Default)]
struct Fastest {
    small: Least,
    tables: Least,
    leaves: Least,
    gathered: Least,
    leaves_alone: Least,
    leaves_after: Least,
    tables_after: Least,
}

/// The least of the values that were seen.
struct Least(f64);

impl Default for Least {
    fn default() -> Least {
        Least(f64::INFINITY)
    }
}

impl Least {
    fn see(&mut self, value: f64) {
        self.0 = self.0.min(value);
    }
}

/// Nanoseconds of a call.
fn pass(stubs: &Stubs, lines: &[u64]) -> f64 {
    per_call(stubs.passes(1, lines, &|| {}), lines.len())
}

fn per_call(time: Duration, calls: usize) -> f64 {
    time.as_nanos() as f64 / calls.max(1) as f64
}
