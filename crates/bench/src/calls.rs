//! Calls into a big mapped file with one stub
//! per base page. The first sweep pays for page faults; random calls after it pay for page walks
//! and TLB misses.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hugetext_engine::{HostContext, plain};
use hugetext_host::{
    FileMapping, FileWindows, Machine, StubFile, WindowState, detached_huge_tmpfs, huge_spans,
};
use hugetext_leaf::{Leaf, Span};

use super::comparison::{Comparison, Measure, Side, Unit};
use super::disk::{directory, has_room};
use super::interrupt::{Bounds, Interrupt};
use super::rounds::Rounds;
use crate::error::BenchError;
use crate::error::BenchStop;
use crate::observer::Observer;
use crate::quantity::{bytes, count};

/// Seed of the order of random calls, which is the same for every side and round.
const SEED: u64 = 0x6361_6c6c;

/// What to call, and how often.
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// How many rounds.
    pub rounds: Rounds,
    /// Size of the file, in MiB.
    pub size: u64,
    /// Random calls in a round.
    pub calls: u32,
    /// The directory for the files, which have no name and leave nothing behind; by default that for
    /// temporary files.
    pub directory: Option<PathBuf>,
    /// The benchmark ends with an error after this many seconds.
    pub timeout: u64,
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
pub enum CallKind {
    /// The first sweep.
    Cold,
    /// Random calls after it.
    Random,
}

/// Times calls of these kinds, all in the same rounds.
pub fn bench_calls(
    settings: &CallSettings,
    kinds: &[CallKind],
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let bounds = interrupt.within(settings.timeout);
    let host = HostContext::with_huge_pages()?;
    observer.begin("rounds", u64::from(settings.rounds.count));
    observer.say("writing the files");
    let files = Files::make(settings, &host, &bounds)?;
    observer.say("");
    let times = measure(settings, kinds, &files, &bounds, observer);
    observer.end();
    let times = times?;
    let comparison = |kind: &CallKind| comparison(*kind, settings, &files, &times);
    Ok(kinds.iter().map(comparison).collect())
}

/// A file in a state, mapped at an address ≡ `residue` (mod leaf).
struct Mapped {
    name: &'static str,
    file: StubFile,
    residue: u64,
    /// Holds the state: DAMON and other reclaim drop pages that were not touched for seconds.
    held: Option<FileMapping>,
}

/// The sides. The first is the one with small folios.
struct Files {
    sides: Vec<Mapped>,
    len: u64,
    page: Leaf,
    leaf: Leaf,
    notes: Vec<String>,
}

impl Files {
    fn make(
        settings: &CallSettings,
        host: &HostContext,
        bounds: &Bounds,
    ) -> Result<Files, BenchStop> {
        let path = directory(settings.directory.as_ref());
        let leaf = host.leaf;
        let len = leaf.align_up(settings.size << 20);
        let directory = File::open(&path).map_err(|error| BenchError::io(&path, &error))?;
        let place = Place {
            path: &path,
            directory: &directory,
            len,
            leaf,
        };
        place.has_room()?;
        let huge = |name, residue| {
            bounds.check()?;
            place.in_state(WindowState::Huge, name, residue)
        };
        let mut files = Files {
            sides: vec![
                place.in_state(WindowState::Small, "small folios", 0)?,
                huge("warmed", 0)?,
                huge("warmed, misaligned", host.page.bytes())?,
            ],
            len,
            page: host.page,
            leaf,
            notes: Vec::new(),
        };
        let tmpfs = detached_huge_tmpfs(len.saturating_add(leaf.bytes()));
        match tmpfs.and_then(|tmpfs| StubFile::new(tmpfs, len, leaf)) {
            Ok(file) => files.sides.push(Mapped {
                name: "huge tmpfs",
                file,
                residue: 0,
                held: None,
            }),
            Err(error) => files
                .notes
                .push(format!("huge tmpfs left out: {}", plain(&error))),
        }
        Ok(files)
    }
}

/// The directory of the files.
struct Place<'p> {
    path: &'p Path,
    directory: &'p File,
    len: u64,
    leaf: Leaf,
}

impl Place<'_> {
    /// Checks before the first write that the disk and memory have room for the files.
    fn has_room(&self) -> Result<(), BenchError> {
        let needed = self.len.saturating_mul(3);
        has_room(self.path, needed)?;
        let memory = Machine::this().memory;
        if needed <= memory / 2 {
            return Ok(());
        }
        let (memory, needed) = (bytes(memory), bytes(needed));
        let problem = format!("{memory} of memory is not enough for files of {needed}");
        Err(BenchError::at(self.path, problem).remedy("lower --size"))
    }

    /// A file whose page cache is brought into a state and held there.
    fn in_state(
        &self,
        state: WindowState,
        name: &'static str,
        residue: u64,
    ) -> Result<Mapped, BenchStop> {
        let failed = |error| BenchError::io(self.path, &error);
        let file = StubFile::new(self.directory, self.len, self.leaf).map_err(failed)?;
        let windows = FileWindows::new(file.file(), file.range(), self.leaf);
        let cache = windows.state().map_err(failed)?;
        match state {
            WindowState::Huge if !cache.is_warm() => {
                windows.reread(&cache).map_err(failed)?;
            }
            WindowState::Huge => {}
            _ => windows.make_small().map_err(failed)?,
        }
        // The pages are locked before the check: some machines drop pages a moment after they were
        // read. mlock fails where RLIMIT_MEMLOCK is small; every round counts the bytes mapped
        // huge.
        let held = windows.map().map_err(failed)?;
        let locked = held.lock().is_ok();
        let cache = windows.state().map_err(failed)?;
        if cache.count(state) != cache.windows.len() {
            let problem = match state {
                WindowState::Huge => "its filesystem made no huge folios",
                _ => "its filesystem made no small folios, or memory is short",
            };
            let failure = BenchError::at(self.path, problem);
            return Err(BenchStop::No(
                failure.remedy("name a --directory on ext4 or xfs"),
            ));
        }
        Ok(Mapped {
            name,
            residue,
            held: locked.then_some(held),
            file,
        })
    }
}

/// The results of one side, round by round.
#[derive(Default)]
struct Times {
    cold: Vec<f64>,
    random: Vec<f64>,
    /// Bytes mapped by huge leaves after the sweep.
    huge: Vec<f64>,
}

fn measure(
    settings: &CallSettings,
    kinds: &[CallKind],
    files: &Files,
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Result<Vec<Times>, BenchError> {
    let pages = u32::try_from(files.len / files.page.bytes()).unwrap_or(u32::MAX);
    let mut random = fastrand::Rng::with_seed(SEED);
    let calls: Vec<u32> = if kinds.contains(&CallKind::Random) {
        (0..settings.calls).map(|_| random.u32(0..pages)).collect()
    } else {
        Vec::new()
    };
    let mut times: Vec<Times> = files.sides.iter().map(|_| Times::default()).collect();
    // The first round warms up the processor and kernel, and is not counted.
    let warm_up = (0..files.sides.len()).collect();
    let orders = std::iter::once(warm_up).chain(settings.rounds.orders(files.sides.len()));
    for (round, order) in orders.enumerate() {
        for index in order {
            let (Some(side), Some(times)) = (files.sides.get(index), times.get_mut(index)) else {
                continue;
            };
            bounds.check()?;
            let failed = |error| BenchError::new(side.name, plain(&error));
            let stubs = side.file.map(files.leaf, side.residue).map_err(failed)?;
            let cold = seconds(|| stubs.call(0..pages));
            let huge = huge_bytes(stubs.addresses()).map_err(failed)?;
            let random = seconds(|| stubs.call(calls.iter().copied()));
            if round > 0 {
                times.cold.push(cold);
                times.random.push(random);
                times.huge.push(huge);
            }
        }
        if round > 0 {
            observer.step();
        }
    }
    Ok(times)
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn huge_bytes(addresses: Span) -> io::Result<f64> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let huge = huge_spans(&pagemap, addresses)?;
    Ok(huge.iter().map(Span::len).sum::<u64>() as f64)
}

fn comparison(
    kind: CallKind,
    settings: &CallSettings,
    files: &Files,
    times: &[Times],
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
    let values = |of: fn(&Times) -> &Vec<f64>| times.iter().map(|side| of(side).clone()).collect();
    let time = match kind {
        CallKind::Cold => values(|side| &side.cold),
        CallKind::Random => values(|side| &side.random),
    };
    let measures = [
        Measure::new(name, Unit::Seconds, time),
        Measure::new(
            "mapped by huge leaves",
            Unit::Bytes,
            values(|side| &side.huge),
        ),
    ];
    let sides = files.sides.iter().map(|side| Side {
        name: side.name.to_owned(),
        state: state(side, files.leaf),
    });
    Comparison {
        benchmark: benchmark.to_owned(),
        title,
        sides: sides.collect(),
        measures: measures.into_iter().flatten().collect(),
        notes: files.notes.clone(),
    }
}

fn state(side: &Mapped, leaf: Leaf) -> String {
    let placed = match side.residue {
        0 => format!("mapped congruently modulo {leaf}"),
        by => format!("mapped {} away from it", bytes(by)),
    };
    let held = match side.held {
        Some(_) => ", held by mlock",
        None => "",
    };
    format!("{placed}{held}")
}
