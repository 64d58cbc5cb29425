//! What a system call costs text behind leaves on this machine.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use hugetext_host::{StubFile, Stubs, scattered_lines};
use hugetext_leaf::Leaf;
use hugetext_leaf::hold::SystemCallCost;

use crate::fastest::fastest;

/// No further round begins after this long.
const LONGEST: Duration = Duration::from_millis(50);
/// Pages of text in use between two system calls: more than the first level of a TLB holds, and fewer than the second.
const PAGES: u32 = 256;
/// Passes over these pages in a round.
const PASSES: u32 = 50;
/// Larger leaves are not tried: they need as much memory.
const LARGEST_TRIED: Leaf = Leaf::M32;

/// Measures the cost, in some milliseconds and at most a quarter of a second on most machines. It compares text behind
/// leaves with the same folios behind tables of base pages (`page`): a leaf is used if the address is congruent to the
/// offset, and only then. The text is a file in memory, so no filesystem and no capability matters.
pub fn system_call_cost(page: Leaf, leaf: Leaf) -> io::Result<SystemCallCost> {
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
    let tables = file.map(leaf, page.bytes())?;
    let lines = scattered_lines(PAGES, page);
    let (alone, behind_leaves) = passes(&leaves, &lines)?;
    let (_, behind_tables) = passes(&tables, &lines)?;
    Ok(SystemCallCost(
        (behind_leaves - behind_tables) / alone.max(1e-9),
    ))
}

/// Seconds of passes over text, alone and each behind a system call.
fn passes(stubs: &Stubs, lines: &[u64]) -> io::Result<(f64, f64)> {
    stubs.call_lines(lines.iter().copied());
    let call = || {
        black_box(std::os::unix::process::parent_id());
    };
    let alone = fastest(LONGEST, || Ok(stubs.passes(PASSES, lines, || {})))?;
    let after_calls = fastest(LONGEST, || Ok(stubs.passes(PASSES, lines, call)))?;
    Ok((alone.as_secs_f64(), after_calls.as_secs_f64()))
}
