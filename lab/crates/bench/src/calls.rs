//! Calls into a big mapped file with one stub
//! per base page. The first sweep pays for page faults; random calls after it pay for page walks
//! and TLB misses.

use std::path::PathBuf;
use std::time::Instant;

use hugetext_bench::quantity::{bytes, count};
use hugetext_bench::{
    BenchError, BenchStop, Bounds, Comparison, Interrupt, Measure, Observer, Rounds, Unit,
};
use hugetext_engine::HostContext;

use crate::stub_files::{StubFiles, values};

/// Seed of the order of random calls, which is the same for every side and round.
const SEED: u64 = 0x6361_6c6c;

/// What to call, and how often.
#[derive(Debug, Clone)]
pub(crate) struct CallSettings {
    /// How many rounds.
    pub(crate) rounds: Rounds,
    /// Size of the file, in MiB.
    pub(crate) size: u64,
    /// Random calls in a round.
    pub(crate) calls: u32,
    /// The directory for the files, which have no name and leave nothing behind; by default that for
    /// temporary files.
    pub(crate) directory: Option<PathBuf>,
    /// The benchmark ends with an error after this many seconds.
    pub(crate) timeout: u64,
}

impl CallSettings {
    /// The default settings.
    pub(crate) fn usual(quick: bool) -> CallSettings {
        CallSettings {
            rounds: Rounds::usual(quick),
            size: if quick { 16 } else { 512 },
            calls: if quick { 10_000 } else { 1_000_000 },
            directory: None,
            timeout: 600,
        }
    }
}

/// The benchmark of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The first sweep.
    Cold,
    /// Random calls after it.
    Random,
}

/// Times calls of these kinds, all in the same rounds.
pub(crate) fn bench_calls(
    settings: &CallSettings,
    kinds: &[CallKind],
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let bounds = interrupt.within(settings.timeout);
    let host = HostContext::with_huge_pages()?;
    observer.begin("rounds", u64::from(settings.rounds.count));
    observer.say("writing the files");
    let files = StubFiles::make(
        settings.directory.as_ref(),
        settings.size << 20,
        "--size",
        &host,
        &bounds,
    )?;
    observer.say("");
    let times = measure(settings, kinds, &files, &bounds, observer);
    observer.end();
    let times = times?;
    let comparison = |kind: &CallKind| comparison(*kind, settings, &files, &times);
    Ok(kinds.iter().map(comparison).collect())
}

/// What one side took in one round.
struct Calls {
    /// Seconds of the sweep.
    cold: f64,
    /// Seconds of the calls at random after it.
    random: f64,
    /// Bytes mapped by huge leaves after the sweep.
    huge: f64,
}

fn measure(
    settings: &CallSettings,
    kinds: &[CallKind],
    files: &StubFiles,
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Result<Vec<Vec<Calls>>, BenchError> {
    let pages = u32::try_from(files.len / files.page.bytes()).unwrap_or(u32::MAX);
    let mut random = fastrand::Rng::with_seed(SEED);
    let calls: Vec<u32> = if kinds.contains(&CallKind::Random) {
        (0..settings.calls).map(|_| random.u32(0..pages)).collect()
    } else {
        Vec::new()
    };
    files.in_rounds(settings.rounds, bounds, observer, |stubs| {
        Ok(Calls {
            cold: seconds(|| stubs.call(0..pages)),
            huge: stubs.pmd_mapped()? as f64,
            random: seconds(|| stubs.call(calls.iter().copied())),
        })
    })
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn comparison(
    kind: CallKind,
    settings: &CallSettings,
    files: &StubFiles,
    times: &[Vec<Calls>],
) -> Comparison {
    let size = bytes(files.len);
    let rounds = count(settings.rounds.count, "round");
    let (benchmark, title, name): (_, _, &str) = match kind {
        CallKind::Cold => (
            "cold",
            format!("the first call into each page of {size} of text, {rounds}"),
            "first sweep",
        ),
        CallKind::Random => (
            "random",
            format!(
                "{} at random into {size} of text that was swept first, {rounds}",
                count(settings.calls, "call")
            ),
            "random calls",
        ),
    };
    let values = |of: fn(&Calls) -> f64| values(times, of);
    let time = match kind {
        CallKind::Cold => values(|calls| calls.cold),
        CallKind::Random => values(|calls| calls.random),
    };
    let measures = [
        Measure::new(name, Unit::Seconds, time),
        Measure::new(
            "mapped by huge leaves",
            Unit::Bytes,
            values(|calls| calls.huge),
        ),
    ];
    Comparison {
        benchmark: benchmark.to_owned(),
        title,
        sides: files.described(),
        measures: measures.into_iter().flatten().collect(),
        notes: files.notes.clone(),
        measured: None,
    }
}
