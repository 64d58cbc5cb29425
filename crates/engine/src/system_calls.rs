//! What a system call costs text behind leaves on this machine.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use hugetext_host::{StubFile, Stubs, scattered_lines};
use hugetext_leaf::Leaf;
use hugetext_leaf::hold::SystemCallCost;

use crate::host_context::HostContext;

/// Of so many rounds the fastest counts: whatever else runs can only make one slower.
const ROUNDS: usize = 8;
/// No round begins after this long.
const LONGEST: Duration = Duration::from_millis(50);
/// Pages of text in use between two system calls: more than the first level of a TLB holds, and fewer than the second.
const PAGES: u32 = 256;
/// Passes over these pages in a round.
const PASSES: u32 = 50;
/// Larger leaves are not tried: they need as much memory.
const LARGEST_TRIED: Leaf = Leaf::M32;

/// Measures the cost, in some milliseconds and at most a quarter of a second. It compares text behind leaves with the same
/// folios behind tables of pages: a leaf is used if the address is congruent to the offset, and only then. The text is a
/// file in memory, so no filesystem and no capability matters.
pub fn system_call_cost(host: &HostContext) -> io::Result<SystemCallCost> {
    let leaf = host.leaf;
    if leaf > LARGEST_TRIED {
        let problem = format!("windows of {leaf} are too large to try");
        return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
    }
    let file = StubFile::in_memory(leaf.bytes(), leaf)?;
    let leaves = file.map(leaf, 0)?;
    leaves.collapse()?;
    if leaves.pmd_mapped()? < leaf.bytes() {
        return Err(io::Error::other(
            "the kernel maps no text in memory by leaves",
        ));
    }
    let tables = file.map(leaf, host.page.bytes())?;
    let lines = scattered_lines(PAGES, host.page);
    let (behind_leaves, behind_tables) = (Passes::of(&leaves, &lines), Passes::of(&tables, &lines));
    let lost = behind_leaves
        .after_calls
        .saturating_sub(behind_tables.after_calls);
    let won = behind_tables
        .after_calls
        .saturating_sub(behind_leaves.after_calls);
    let alone = behind_leaves.alone.as_secs_f64().max(1e-9);
    Ok(SystemCallCost(
        (lost.as_secs_f64() - won.as_secs_f64()) / alone,
    ))
}

/// Times of passes over text.
struct Passes {
    alone: Duration,
    /// With a system call before each.
    after_calls: Duration,
}

impl Passes {
    fn of(stubs: &Stubs, lines: &[u64]) -> Passes {
        let round = |before: fn()| {
            fastest(|| {
                let start = Instant::now();
                for _ in 0..PASSES {
                    before();
                    stubs.call_lines(lines.iter().copied());
                }
                start.elapsed()
            })
        };
        stubs.call_lines(lines.iter().copied());
        Passes {
            alone: round(|| {}),
            after_calls: round(|| {
                black_box(std::os::unix::process::parent_id());
            }),
        }
    }
}

fn fastest(mut round: impl FnMut() -> Duration) -> Duration {
    let start = Instant::now();
    let mut best = round();
    for _ in 1..ROUNDS {
        if start.elapsed() > LONGEST {
            break;
        }
        best = best.min(round());
    }
    best
}
