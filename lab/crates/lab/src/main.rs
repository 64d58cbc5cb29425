//! The lab: boots stock kernels in QEMU and measures how each treats program text.

mod arch;
mod archive;
mod args;
mod boot;
mod cache;
mod cpio;
mod disk;
mod error;
mod facts;
mod fetch;
mod guest;
mod image;
mod kernel;
mod matrix;
mod plan;
mod qemu;
mod record;
mod rules;
mod support;
mod table;
mod tool;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use hugetext_leaf::Rule;

use crate::args::{Args, MatrixArgs, Mode};
use crate::boot::Lab;
use crate::cache::Cache;
use crate::error::{At, LabError, Result};
use crate::facts::Fact;
use crate::guest::Optimisation;
use crate::kernel::KernelId;
use crate::plan::{Extent, SLICE};
use crate::record::Boot;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("hugetext-lab: {error}");
            ExitCode::from(2)
        }
    }
}

/// False if the answer is no.
fn run(args: &Args) -> Result<bool> {
    let cache = Cache::at(&args.cache)?;
    match &args.mode {
        Mode::Fetch { kernels, again } => {
            let fetched = fetch::fetch(&cache, kernels, *again)?;
            report_missing(&fetched.missing);
            for id in cache.kernels() {
                println!("{id}");
            }
        }
        Mode::Boot(boot) => {
            let lab = Lab::new(cache, Optimisation::Release)?;
            let kernel = boot.kernel()?;
            if boot.shell {
                lab.shell(&kernel, &boot.options(), boot.work())?;
                return Ok(true);
            }
            let said = lab.boot_to_end(&kernel, &boot.options(), boot.work())?;
            println!("{}", said.to_json());
            return Ok(said.succeeded());
        }
        Mode::Matrix(matrix) => return measure(cache, matrix),
        Mode::Docs { record, check } => return write_docs(record, *check),
    }
    Ok(true)
}

fn report_missing(missing: &[KernelId]) {
    for id in missing {
        eprintln!("skipped: {id} is not in the archive");
    }
}

/// Runs boots, stores their results, and compares them with the rules.
fn measure(cache: Cache, args: &MatrixArgs) -> Result<bool> {
    let extent = args.extent();
    let only = match (extent, args.only.is_empty()) {
        (Extent::Slice, true) => SLICE.iter().filter_map(|id| id.parse().ok()).collect(),
        _ => args.only.clone(),
    };
    report_missing(&fetch::fetch(&cache, &only, false)?.missing);
    let mut kernels = cache.kernels();
    kernels.retain(|id| only.is_empty() || only.contains(id));
    // The slice compares no speeds.
    let optimisation = match extent {
        Extent::Slice => Optimisation::Quick,
        Extent::Whole | Extent::Rounds(_) => Optimisation::Release,
    };
    let lab = Lab::new(cache, optimisation)?;
    let found = Mutex::new(Vec::new());
    let planned = plan::boots(&kernels, extent);
    if planned.is_empty() {
        return Err(LabError::Usage(
            "none of these kernels is in the cache".to_owned(),
        ));
    }
    matrix::run(&lab, &planned, |boot| {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(out) = &args.out {
            record::merge(out, vec![boot.clone()])?;
        }
        found.push(boot);
        Ok(())
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(match extent {
        Extent::Rounds(rounds) => survived(&found, rounds),
        Extent::Whole | Extent::Slice => compare(&found, hugetext_leaf::RULES),
    })
}

/// Prints how many rounds of promotion each kernel's programs survived.
fn survived(boots: &[Boot], asked: u32) -> bool {
    let mut well = true;
    for boot in boots {
        let rounds = boot.rounds();
        println!("{}: {rounds}", boot.kernel);
        well &= rounds.done >= asked && rounds.wrong.is_empty() && boot.died.is_none();
    }
    well
}

/// Prints where measurements and rules differ, and which guests died.
fn compare(boots: &[Boot], rules: &[Rule]) -> bool {
    let facts = facts::facts(boots);
    let disagreements: Vec<&Fact> = facts.iter().filter(|fact| !fact.agrees(rules)).collect();
    for fact in &disagreements {
        println!("{}", fact.contradiction());
    }
    let claims = facts::false_claims(boots);
    for claim in &claims {
        println!("{claim}");
    }
    let dead = boots.iter().filter(|boot| boot.died.is_some()).count();
    let agreed = facts.len() - disagreements.len();
    println!(
        "{agreed} of {} measured facts agree with the rules; {dead} guests died",
        facts.len()
    );
    disagreements.is_empty() && claims.is_empty() && dead == 0 && !facts.is_empty()
}

/// Writes the documents and rules from the table and the record, or checks that they are what those
/// give. False if they are not, or if the record contradicts the table.
fn write_docs(record: &Path, check: bool) -> Result<bool> {
    let boots = record::read(record)?;
    let table = table::rules().map_err(|error| LabError::Table(error.to_string()))?;
    let rows = rules::rows(&table, &facts::facts(&boots));
    let rules: Vec<Rule> = rows.iter().map(|row| row.rule).collect();
    let mut same = true;
    for (path, text) in [
        ("docs/support.md", support::render(&boots, &rows)?),
        ("crates/leaf/src/rules.rs", rules::render(&rows)),
    ] {
        let path = Path::new(path);
        if check {
            let now = std::fs::read_to_string(path).at(path)?;
            if now != text {
                println!(
                    "{}: differs from the table and the record: run 'make -C lab rules'",
                    path.display()
                );
                same = false;
            }
        } else {
            std::fs::write(path, text).at(path)?;
        }
    }
    Ok(compare(&boots, &rules) && same)
}
