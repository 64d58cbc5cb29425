//! Every benchmark, one after the other.

use crate::calls::{CallKind, CallSettings, bench_calls};
use crate::mprotect::{MprotectSettings, bench_mprotect};
use crate::rmap::{RmapSettings, bench_rmap};
use crate::syscalls::{SyscallSettings, bench_syscalls};
use crate::tlb::{self, TlbSettings};
use hugetext_bench::Comparison;
use hugetext_bench::Interrupt;
use hugetext_bench::Observer;
use hugetext_bench::{BenchError, BenchStop};
use hugetext_bench::{EMPTY_COMPILE, ExecSettings, bench_exec, compiler};

/// Runs every benchmark with its usual settings, tlb with an empty compile by cc1. With `quick`,
/// sizes are smaller and rounds fewer, as a functional test. A benchmark whose answer is no is left
/// out. If all answers are no, the answer is no.
pub(crate) fn bench_all(
    quick: bool,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let calls = [CallKind::Cold, CallKind::Random];
    let outcomes = [
        bench_exec(&ExecSettings::usual(quick), interrupt, observer),
        bench_calls(&CallSettings::usual(quick), &calls, interrupt, observer),
        bench_syscalls(&SyscallSettings::usual(quick), interrupt, observer),
        bench_mprotect(&MprotectSettings::usual(quick), interrupt, observer),
        bench_rmap(&RmapSettings::usual(quick), interrupt, observer),
    ];
    let mut comparisons = Vec::new();
    let mut no = None;
    for outcome in outcomes {
        match outcome {
            Ok(found) => comparisons.extend(found),
            Err(BenchStop::No(why)) => {
                observer.left_out(&why);
                no = Some(why);
            }
            Err(error) => return Err(error),
        }
    }
    interrupt.check()?;
    comparisons.extend(misses(observer)?);
    match no {
        Some(why) if comparisons.is_empty() => Err(BenchStop::No(why)),
        _ => Ok(comparisons),
    }
}

/// The TLB misses of an empty compile, if an emulator and a compiler are available.
fn misses(observer: &dyn Observer) -> Result<Option<Comparison>, BenchError> {
    let Some(compiler) = compiler() else {
        return Ok(None);
    };
    if let Err(missing) = tlb::is_possible() {
        observer.warn(&missing);
        return Ok(None);
    }
    let mut command = vec![compiler.to_string_lossy().into_owned()];
    command.extend(EMPTY_COMPILE.map(str::to_owned));
    let report = tlb::bench_tlb(&TlbSettings::usual(command), observer)?;
    Ok(Some(report.comparison()))
}
