//! Files of text to call, each in a state of its page cache and at an address of its own: the sides of
//! calls and system calls.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use hugetext_bench::quantity::bytes;
use hugetext_bench::{BenchError, BenchStop, Bounds, Observer, Rounds, Side, directory, has_room};
use hugetext_engine::{HostContext, plain};
use hugetext_host::{
    FileMapping, FileWindows, Machine, StubFile, Stubs, WindowState, detached_huge_tmpfs,
};
use hugetext_leaf::Leaf;

/// A file in a state, mapped at an address ≡ `residue` (mod leaf).
pub(crate) struct Mapped {
    /// The name of the side.
    pub(crate) name: &'static str,
    file: StubFile,
    residue: u64,
    /// Holds the state: DAMON and other reclaim drop pages that were not touched for seconds.
    held: Option<FileMapping>,
}

/// The sides. The first is the one with small folios.
pub(crate) struct StubFiles {
    /// Each a file in a state.
    pub(crate) sides: Vec<Mapped>,
    /// Bytes of each.
    pub(crate) len: u64,
    /// The base page.
    pub(crate) page: Leaf,
    leaf: Leaf,
    /// What the reader of the figures needs to know.
    pub(crate) notes: Vec<String>,
}

impl StubFiles {
    /// Files of at least `size` bytes in `at`, or in the directory for temporary files. They have no name.
    /// `option` is the one of the command that sets the size.
    pub(crate) fn make(
        at: Option<&PathBuf>,
        size: u64,
        option: &str,
        host: &HostContext,
        bounds: &Bounds,
    ) -> Result<StubFiles, BenchStop> {
        let path = directory(at);
        let leaf = host.leaf;
        let len = leaf.align_up(size);
        let directory = File::open(&path).map_err(|error| BenchError::io(&path, &error))?;
        let place = Place {
            path: &path,
            directory: &directory,
            len,
            leaf,
            option,
        };
        place.has_room()?;
        let huge = |name, residue| {
            bounds.check()?;
            place.in_state(WindowState::Huge, name, residue)
        };
        let mut files = StubFiles {
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

    /// Measures every side in every round, mapped anew each time, and returns what each side's rounds gave. Before them, a
    /// round that is not counted warms up the processor and the kernel.
    pub(crate) fn in_rounds<T>(
        &self,
        rounds: Rounds,
        bounds: &Bounds,
        observer: &dyn Observer,
        mut measure: impl FnMut(&Stubs) -> io::Result<T>,
    ) -> Result<Vec<Vec<T>>, BenchError> {
        let mut results: Vec<Vec<T>> = self.sides.iter().map(|_| Vec::new()).collect();
        let warm_up = (0..self.sides.len()).collect();
        let orders = std::iter::once(warm_up).chain(rounds.orders(self.sides.len()));
        for (round, order) in orders.enumerate() {
            for index in order {
                let (Some(side), Some(results)) = (self.sides.get(index), results.get_mut(index))
                else {
                    continue;
                };
                bounds.check()?;
                let stubs = side.file.map(self.leaf, side.residue);
                let result = stubs.and_then(|stubs| measure(&stubs));
                let result = result.map_err(|error| BenchError::new(side.name, plain(&error)))?;
                if round > 0 {
                    results.push(result);
                }
            }
            if round > 0 {
                observer.step();
            }
        }
        Ok(results)
    }

    /// The sides, in words.
    pub(crate) fn described(&self) -> Vec<Side> {
        let side = |side: &Mapped| Side {
            name: side.name.to_owned(),
            state: state(side, self.leaf),
        };
        self.sides.iter().map(side).collect()
    }
}

/// One number of what [`StubFiles::in_rounds`] gave, for each side and round.
pub(crate) fn values<T>(sides: &[Vec<T>], of: fn(&T) -> f64) -> Vec<Vec<f64>> {
    let side = |rounds: &Vec<T>| rounds.iter().map(of).collect();
    sides.iter().map(side).collect()
}

/// The directory of the files.
struct Place<'p> {
    path: &'p Path,
    directory: &'p File,
    len: u64,
    leaf: Leaf,
    option: &'p str,
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
        Err(BenchError::at(self.path, problem).remedy(format!("lower {}", self.option)))
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
