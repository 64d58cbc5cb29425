//! What `check` says, what `fix --dry-run` shows and what `fix` does agree, for files that linkers could have made and
//! for damaged ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

// Both tests of this crate and of hugetext-elf need the same files.
#[path = "../../elf/tests/generate/mod.rs"]
mod generate;

use std::fs;
use std::path::Path;

use generate::{Program as Generated, program};
use hugetext_elf::{Strategy, Verified};
use hugetext_engine::{
    Assessment, Error, FixRequest, FixTarget, HostContext, Look, PlannedFix, ProgramOnHost,
    StrategyChoice, plan_fix, write_fix,
};
use hugetext_leaf::verdict::LeafUse;
use hugetext_leaf::{Geometry, Leaf};
use proptest::prelude::*;
use tempfile::TempDir;

/// Bytes of the largest segment: more than a window of the smaller leaves.
const MOST: u64 = 300_000;

const WAYS: [StrategyChoice; 4] = [
    StrategyChoice::Auto,
    StrategyChoice::AtMost(Strategy::Align),
    StrategyChoice::AtMost(Strategy::Shift),
    StrategyChoice::AtMost(Strategy::Merge),
];

/// What somebody is told of a fix, in any of the three ways.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The text that leaves of this size reach afterwards.
    Reach(Leaf, u64),
    /// It is refused: the exit status is 1.
    Declined(String),
    /// It must not be done: the exit status is 2.
    Refused(String),
}

fn told(planned: &Result<PlannedFix, Error>) -> Told {
    match planned {
        Err(error) => Told::Refused(error.reason()),
        Ok(planned) => match &planned.decision.proposal {
            Err(refusal) => Told::Declined(refusal.to_string()),
            Ok(fix) => Told::Reach(fix.plan.leaf, fix.reached_after),
        },
    }
}

/// A directory whose filesystem holds huge folios, by the rules.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// This machine, with a kernel of whose rules all are known.
fn host() -> HostContext {
    HostContext::read(Some(hugetext_leaf::Version::new(7, 3).into())).unwrap()
}

/// Holds the three against each other for one file.
fn agree(
    host: &HostContext,
    directory: &Path,
    bytes: &[u8],
    geometry: Geometry,
) -> Result<(), TestCaseError> {
    let (old, new) = (directory.join("old"), directory.join("new"));
    fs::write(&old, bytes).unwrap();
    let Ok(program) = ProgramOnHost::open(&old, host) else {
        return Ok(());
    };
    let checked = Assessment::of(&program, &geometry, Look::AtHeaders);
    for strategy in WAYS {
        for self_warming in [false, true] {
            let request = FixRequest {
                self_warming,
                ..FixRequest::plain(strategy, geometry)
            };
            let dry = plan_fix(&program, &request, &FixTarget::DryRun { vouched: false });
            let target = FixTarget::Copy {
                path: new.clone(),
                privileged: false,
                vouched: false,
            };
            let wet = plan_fix(&program, &request, &target);
            prop_assert_eq!(told(&dry), told(&wet));
            let agreed = told(&wet);
            if !self_warming {
                is_promised(&checked, strategy, &agreed)?;
            }
            let Ok(PlannedFix {
                decision,
                destination,
                ..
            }) = wet
            else {
                continue;
            };
            let Ok(fix) = decision.proposal else { continue };
            // What is planned is carried out and proved.
            let written = write_fix(&program, &fix, &destination, &geometry, LeafUse::Leaves);
            let written = written.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let verified = written.expect("a copy was asked for").verified;
            prop_assert!(
                strategy != StrategyChoice::Auto || self_warming || verified == Verified::default()
            );
            let fixed = ProgramOnHost::open(&new, host).unwrap();
            let again = Assessment::of(&fixed, &geometry, Look::AtHeaders);
            if fix.plan.strategy == Strategy::Merge {
                // Read-only data that became executable counts as text from now on.
                prop_assert_eq!(again.leaf, fix.plan.leaf);
                prop_assert!(again.reached >= fix.reached_after, "{again:#?}");
            } else {
                prop_assert_eq!(Told::Reach(again.leaf, again.reached), agreed);
                // Nothing is promised that is there already.
                let weaker = StrategyChoice::AtMost(Strategy::Align);
                let is_done = again.after_fix <= again.reached;
                prop_assert!(is_done || strategy == weaker, "{again:#?}");
            }
        }
    }
    Ok(())
}

/// Whether the check of the file promised that.
fn is_promised(
    checked: &Assessment,
    strategy: StrategyChoice,
    agreed: &Told,
) -> Result<(), TestCaseError> {
    let way = match strategy {
        StrategyChoice::AtMost(strategy) => {
            let mut ways = checked.possible.iter();
            ways.find(|way| way.strategy == strategy).unwrap()
        }
        StrategyChoice::Auto => {
            let expected = match agreed {
                Told::Reach(_, reached) => *reached,
                Told::Declined(_) | Told::Refused(_) => checked.reached,
            };
            prop_assert_eq!(checked.after_fix, expected);
            return Ok(());
        }
    };
    match (agreed, &way.refusal) {
        (Told::Reach(leaf, reached), None) => {
            prop_assert_eq!((*leaf, *reached), (way.leaf, way.reached));
        }
        (Told::Declined(said) | Told::Refused(said), Some(refusal)) => {
            prop_assert_eq!(said, refusal);
        }
        other => prop_assert!(false, "{other:?}"),
    }
    Ok(())
}

/// Changes to the headers: where, by the tables, and to what.
fn damage() -> impl proptest::strategy::Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    let change = (any::<prop::sample::Index>(), 0u8..3, any::<u8>());
    proptest::collection::vec(change, 1..4)
}

/// Applies changes to the ELF header and the program headers, to the section headers, or anywhere.
fn damaged(program: &Generated, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = program.bytes();
    let tables = 64 + 56 * program.loads.len();
    let len = bytes.len();
    for (index, where_to, value) in changes {
        let at = match where_to {
            0 => index.index(tables.min(len)),
            1 => len - 1 - index.index(len.min(600)),
            _ => index.index(len),
        };
        // Small changes of a number are as telling as large ones.
        bytes[at] = if value % 2 == 0 {
            bytes[at] ^ (1 << (value >> 5))
        } else {
            *value
        };
    }
    bytes
}

/// Every geometry whose smaller leaf a file of the generator may fill.
fn geometries() -> impl proptest::strategy::Strategy<Value = Geometry> {
    let all: Vec<Geometry> = Geometry::all().collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 32, ..Default::default() })]

    #[test]
    fn of_files_by_linkers(program in program(MOST)) {
        agree(&host(), directory().path(), &program.bytes(), Geometry::ARM64_4K)?;
    }

    #[test]
    fn of_every_geometry(program in program(5 << 20), geometry in geometries()) {
        agree(&host(), directory().path(), &program.bytes(), geometry)?;
    }

    #[test]
    fn of_damaged_files(program in program(MOST), payload in any::<bool>(), changes in damage()) {
        let program = Generated { payload, ..program };
        agree(&host(), directory().path(), &damaged(&program, &changes), Geometry::ARM64_4K)?;
    }
}

/// The seed of the damage below, so that what it finds is found again.
const SEED: u64 = 0x7e87;

/// Programs of this machine with text for a few of the smallest windows, in the order of their names.
fn programs_here() -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = ["/usr/bin", "/usr/sbin"]
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let read = paths.into_iter().filter_map(|path| {
        let len = fs::symlink_metadata(&path).ok()?.len();
        let bytes = (100_000..400_000).contains(&len).then(|| fs::read(&path))?;
        bytes.ok().filter(|bytes| bytes.starts_with(b"\x7fELF"))
    });
    read.take(40).collect()
}

/// A program with a few numbers changed, mostly in its header tables.
fn mutant(program: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = program.to_vec();
    let table = bytes.get(40..48).map_or(0, |field| {
        u64::from_le_bytes(field.try_into().unwrap_or_default()) as usize
    });
    for _ in 0..random.usize(1..4) {
        let places = [0..64, 64..900, table..bytes.len(), 0..bytes.len()];
        let place = places[random.usize(..places.len())].clone();
        if place.is_empty() || place.end > bytes.len() {
            continue;
        }
        let at = random.usize(place);
        bytes[at] = match random.u8(..4) {
            0 => random.u8(..),
            1 => bytes[at].wrapping_add(1),
            2 => 0,
            _ => bytes[at] ^ (1 << random.u8(..8)),
        };
    }
    // Some are cut off, and some have data behind them.
    match random.u8(..20) {
        0 => bytes.truncate(random.usize(..bytes.len())),
        1 => bytes.extend_from_slice(&[b'x'; 5000]),
        _ => {}
    }
    bytes
}

/// Few are tried here; `HUGETEXT_MUTANTS=5000` tries more. They are the same on a machine with the same programs.
#[test]
fn of_mutants_of_the_programs_of_this_machine() {
    let wanted = std::env::var("HUGETEXT_MUTANTS").ok();
    let wanted = wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(40);
    let programs = programs_here();
    if programs.is_empty() {
        println!("skipped: no programs of this size here");
        return;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let (host, directory) = (host(), directory());
    for index in 0..wanted {
        let program = &programs[random.usize(..programs.len())];
        let bytes = mutant(program, &mut random);
        if let Err(error) = agree(&host, directory.path(), &bytes, Geometry::ARM64_4K) {
            let kept = std::env::temp_dir().join("hugetext-mutant");
            fs::write(&kept, &bytes).unwrap();
            panic!("mutant {index}, kept as {}: {error}", kept.display());
        }
    }
    println!("{wanted} mutants of {} programs", programs.len());
}
