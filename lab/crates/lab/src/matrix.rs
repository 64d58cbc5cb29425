//! Runs planned boots, as many at a time as there are processors.

use std::time::Duration;

use rayon::prelude::*;

use crate::boot::{Kernel, Lab, Options, Work};
use crate::cache::Unit;
use crate::error::Result;
use crate::plan::{Planned, Purpose};
use crate::record::Boot;

/// The longest time without output of a guest of the matrix. The longest cell takes seconds on a
/// free machine, and minutes where ten other guests want its processor.
const PATIENCE: Duration = Duration::from_secs(600);
/// The same for a cell with many rounds.
const PATIENCE_FOR_ROUNDS: Duration = Duration::from_secs(1800);

/// Runs every boot and passes each result to `keep` at its end. A guest that dies is a result too,
/// and is printed.
pub(crate) fn run(
    lab: &Lab,
    planned: &[Planned],
    keep: impl Fn(Boot) -> Result<()> + Sync,
) -> Result<()> {
    // Programs are built before the guests start, so that no guest waits for a compiler meanwhile.
    for boot in planned {
        lab.built(boot.kernel.flavour.arch())?;
    }
    // Unlike a parallel slice, this keeps the order: the longest boots must not come last.
    planned
        .iter()
        .par_bridge()
        .try_for_each(|boot| keep(run_one(lab, boot)?))
}

fn run_one(lab: &Lab, planned: &Planned) -> Result<Boot> {
    let options = Options {
        filesystems: planned.filesystems.clone(),
        // One processor for each guest: as many guests run as there are processors.
        cpus: 1,
        icount: planned.purpose == Purpose::Times,
        patience: match planned.purpose {
            Purpose::Rounds => PATIENCE_FOR_ROUNDS,
            Purpose::Behaviour | Purpose::Times => PATIENCE,
        },
        ..Options::default()
    };
    let said = lab.boot(
        &Kernel::Stock(planned.kernel),
        &options,
        Work {
            cells: planned.cells.clone(),
            ..Work::default()
        },
    )?;
    let unit = Unit::open(&lab.cache.kernel(planned.kernel))?;
    eprintln!(
        "{} ({:?}): {} of {} cells in {:.0} s{}",
        planned.kernel,
        planned.purpose,
        said.results.len(),
        planned.cells.len(),
        said.ran.as_secs_f64(),
        said.died
            .as_ref()
            .map(|why| format!("; {why}"))
            .unwrap_or_default(),
    );
    for (what, error) in &said.missing {
        eprintln!("{}: skipped {what}: {error}", planned.kernel);
    }
    Ok(Boot {
        kernel: planned.kernel,
        purpose: planned.purpose,
        packages: unit.map(|unit| unit.packages).unwrap_or_default(),
        hello: said.hello,
        missing: said.missing,
        died: said.died,
        results: said.results,
    })
}
