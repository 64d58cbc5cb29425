//! What a fault, a fill and a system call cost on this machine, measured in less than a second.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use hugetext_engine::{HostContext, system_call_cost};
use hugetext_host::{Advice, Region};
use hugetext_leaf::hold::Costs;
use hugetext_leaf::{Leaf, Perms};

/// Bytes that one fault maps (fault_around_bytes).
const AROUND: usize = 64 << 10;
/// Of so many rounds the fastest counts: whatever else runs can only make one slower.
const ROUNDS: usize = 8;
/// So many are made on the slowest machine, too.
const LEAST_ROUNDS: usize = 3;
/// No further round begins after this long.
const LONGEST: Duration = Duration::from_millis(300);

/// What was measured, and what could not be.
#[derive(Debug)]
pub struct Calibration {
    /// What the machine pays.
    pub costs: Costs,
    /// That the cost of system calls is unknown, where the decision needs it, and why.
    pub unknown: Option<String>,
}

/// Measures the costs. `set_share` is the configured share of processor time.
///
/// The fault is one on the text of this very program, which is in the page cache and cannot be cut
/// short while it runs. The fill is a huge page taken and written, and a window copied.
pub fn calibrate(host: &HostContext, set_share: Option<f64>) -> io::Result<Calibration> {
    let own = File::open("/proc/self/exe")?;
    let system_call = system_call_cost(host);
    let unknown = system_call.as_ref().err().filter(|_| set_share.is_none());
    Ok(Calibration {
        unknown: unknown.map(|error| {
            format!(
                "what system calls cost huge text is unknown: {error}; \
                 where `hugetext bench syscalls` finds a cost, set `share = 0`"
            )
        }),
        costs: Costs {
            fault: fault(&own)?,
            fill: fill(host.leaf)?,
            system_call: system_call.ok(),
            set_share,
        },
    })
}

/// Nanoseconds of a fault on cached text that maps the pages around it.
fn fault(file: &File) -> io::Result<f64> {
    let perms = Perms {
        read: true,
        write: false,
        exec: false,
    };
    let len = usize::try_from(file.metadata()?.len().min(8 << 20)).unwrap_or(AROUND);
    let len = (len - len % AROUND).max(AROUND);
    fastest(|| {
        let region = Region::of_file(file, 0, len, Leaf::K64, perms)?;
        let start = Instant::now();
        region.touch(AROUND);
        Ok(start.elapsed().as_nanos() as f64 / (len / AROUND) as f64)
    })
}

/// Nanoseconds to make a window huge.
fn fill(leaf: Leaf) -> io::Result<f64> {
    // Larger windows take as much longer as they hold more.
    let len = usize::try_from(leaf.bytes().min(2 << 20)).unwrap_or(2 << 20);
    let times = leaf.bytes() as f64 / len as f64;
    let source = vec![1u8; len];
    let mut target = vec![0u8; len];
    let taken = fastest(|| {
        let region = Region::anonymous(len, leaf)?;
        // Without huge pages for anonymous memory, the pages are taken one by one.
        let _ = region.advise(Advice::HugePage);
        let start = Instant::now();
        region.dirty(4096);
        target.copy_from_slice(black_box(&source));
        black_box(&target);
        Ok(start.elapsed().as_nanos() as f64)
    })?;
    Ok(taken * times)
}

fn fastest(mut round: impl FnMut() -> io::Result<f64>) -> io::Result<f64> {
    let start = Instant::now();
    let mut best = round()?;
    for done in 1..ROUNDS {
        if done >= LEAST_ROUNDS && start.elapsed() > LONGEST {
            break;
        }
        best = best.min(round()?);
    }
    Ok(best.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_some_machine() {
        let host = HostContext::with_huge_pages().unwrap();
        let Calibration { costs, unknown } = calibrate(&host, None).unwrap();
        // From 10 ns to 1 ms for a fault, and from 1 µs to 1 s for a fill.
        assert!((10.0..1e6).contains(&costs.fault), "{costs:?}");
        assert!((1e3..1e9).contains(&costs.fill), "{costs:?}");
        // Either it was measured, or somebody learns why not.
        assert_ne!(
            costs.system_call.is_some(),
            unknown.is_some(),
            "{costs:?} {unknown:?}"
        );
        let told = calibrate(&host, Some(0.03)).unwrap();
        assert_eq!((told.costs.share(), told.unknown), (0.03, None));
    }
}
