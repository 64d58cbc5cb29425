//! What a fault, a fill and a system call cost on this machine, measured in less than a second.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use hugetext_engine::{MachineVerdict, fastest};
use hugetext_host::{Advice, Region};
use hugetext_leaf::hold::{Costs, SystemCallCost};
use hugetext_leaf::verdict::Verdict;
use hugetext_leaf::{Leaf, Perms};

/// Bytes that one fault maps (fault_around_bytes).
const AROUND: usize = 64 << 10;
/// No further round begins after this long.
const LONGEST: Duration = Duration::from_millis(300);

/// What was measured, and what could not be.
#[derive(Debug)]
pub struct Calibration {
    /// What the machine pays.
    pub costs: Costs,
    /// What huge text gives on this machine.
    pub verdict: Verdict,
    /// That the cost of system calls is unknown, where the decision needs it, and why.
    pub unknown: Option<String>,
}

/// Measures the costs. `leaf` is what a window holds, and `set_share` is the configured share of
/// processor time.
pub fn calibrate(leaf: Leaf, set_share: Option<f64>) -> io::Result<Calibration> {
    let machine = MachineVerdict::this().judgement;
    let system_call = machine.system_call.map(|cost| SystemCallCost(cost.median));
    let unknown = system_call.is_none() && set_share.is_none();
    let doubt = machine.doubt.filter(|_| unknown);
    Ok(Calibration {
        verdict: machine.verdict,
        unknown: doubt.map(|doubt| {
            format!(
                "what system calls cost huge text is unknown, because {doubt}; \
                 set `share = 0` if programs of many system calls run here"
            )
        }),
        costs: Costs {
            fault: fault_cost()?,
            fill: fill_cost(leaf)?,
            system_call,
            set_share,
        },
    })
}

/// Nanoseconds of a fault on cached text that maps the pages around it. The text is that of this very program, which is in
/// the page cache and cannot be cut short while it runs.
pub fn fault_cost() -> io::Result<f64> {
    let file = File::open("/proc/self/exe")?;
    let perms = Perms {
        read: true,
        write: false,
        exec: false,
    };
    let len = usize::try_from(file.metadata()?.len().min(8 << 20)).unwrap_or(AROUND);
    let len = (len - len % AROUND).max(AROUND);
    let all = nanoseconds(|| {
        let region = Region::of_file(&file, 0, len, Leaf::K64, perms)?;
        let start = Instant::now();
        region.touch(AROUND);
        Ok(start.elapsed())
    })?;
    Ok((all / (len / AROUND) as f64).max(1.0))
}

/// Nanoseconds to make a window huge: a huge page taken and written, and a window copied.
pub fn fill_cost(leaf: Leaf) -> io::Result<f64> {
    // Larger windows take as much longer as they hold more.
    let len = usize::try_from(leaf.bytes().min(2 << 20)).unwrap_or(2 << 20);
    let times = leaf.bytes() as f64 / len as f64;
    let source = vec![1u8; len];
    let mut target = vec![0u8; len];
    let taken = nanoseconds(|| {
        let region = Region::anonymous(len, leaf)?;
        // Without huge pages for anonymous memory, the pages are taken one by one.
        let _ = region.advise(Advice::HugePage);
        let start = Instant::now();
        region.dirty(4096);
        target.copy_from_slice(black_box(&source));
        black_box(&target);
        Ok(start.elapsed())
    })?;
    Ok(taken.max(1.0) * times)
}

/// Of the fastest round.
fn nanoseconds(round: impl FnMut() -> io::Result<Duration>) -> io::Result<f64> {
    Ok(fastest(LONGEST, round)?.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use hugetext_engine::HostContext;

    use super::*;

    #[test]
    fn costs_are_those_of_some_machine() {
        let host = HostContext::with_huge_pages().unwrap();
        let Calibration { costs, unknown, .. } = calibrate(host.leaf, None).unwrap();
        // From 10 ns to 1 ms for a fault, and from 1 µs to 1 s for a fill.
        assert!((10.0..1e6).contains(&costs.fault), "{costs:?}");
        assert!((1e3..1e9).contains(&costs.fill), "{costs:?}");
        // Either it was measured, or somebody learns why not.
        assert_ne!(
            costs.system_call.is_some(),
            unknown.is_some(),
            "{costs:?} {unknown:?}"
        );
        let told = calibrate(host.leaf, Some(0.03)).unwrap();
        assert_eq!((told.costs.share(), told.unknown), (0.03, None));
    }
}
