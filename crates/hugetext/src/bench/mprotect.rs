//! `hugetext bench mprotect`: does this kernel change the rights of a large folio's pages in one
//! batch (Linux 6.17, mm/mprotect.c), or page by page?
//!
//! Where it does not, large folios that are mapped by PTEs cost as much as base pages, or more.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use hugetext_host::{Advice, Region, free_bytes, huge_spans, unnamed_file};
use hugetext_leaf::{Leaf, Perms, Span};

use super::Stop;
use super::comparison::{Comparison, Measure, Side, Unit};
use super::rounds::Rounds;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::table::bytes;
use crate::warm::Ground;

/// Change the access rights of base pages and of large folios mapped page by page
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures every side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// How much memory; files are a quarter of it
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    size: u64,
    /// Changes to read-only and back in a round
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    loops: u32,
    /// Where to make the files, which have no name [default: the directory for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
}

impl Arguments {
    /// What is measured when nothing is said.
    pub(super) fn usual(quick: bool) -> Arguments {
        Arguments {
            rounds: if quick { 2 } else { 5 },
            size: if quick { 16 } else { 1024 },
            loops: if quick { 2 } else { 40 },
            directory: None,
        }
    }
}

const READ: Perms = Perms {
    read: true,
    write: false,
    exec: false,
};
const READ_WRITE: Perms = Perms {
    read: true,
    write: true,
    exec: false,
};

/// Memory whose rights are changed.
struct Subject {
    side: Side,
    region: Region,
    len: usize,
}

/// Answers `hugetext bench mprotect`.
pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<Vec<Comparison>, Stop> {
    let ground = Ground::this()?;
    let (leaf, page) = (ground.leaf(), ground.page());
    let mut notes =
        vec!["only the mprotect calls are timed; no page is written between them".to_owned()];
    let memory = memory(leaf.align_up(arguments.size << 20), leaf, page, &mut notes)?;
    let files = files(arguments, leaf, page)?;
    let steps = u64::from(arguments.rounds) * 2;
    let bar = output.progress("rounds", steps);
    let mut comparisons = Vec::new();
    for (what, subjects, notes) in [
        ("anonymous memory", memory, notes),
        ("a file mapped privately", files, Vec::new()),
    ] {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
        let rounds = Rounds {
            rounds: arguments.rounds,
        };
        for order in rounds.orders(subjects.len()) {
            for index in order {
                if let (Some(subject), Some(times)) = (subjects.get(index), times.get_mut(index)) {
                    let time = subject.toggle(arguments.loops);
                    times.push(time.map_err(|error| failed(&error))?);
                }
            }
            bar.inc(1);
        }
        let len = subjects.first().map_or(0, |subject| subject.len as u64);
        let name = "all changes";
        comparisons.push(Comparison {
            benchmark: "mprotect".to_owned(),
            title: format!(
                "{} of {what}, to read-only and back {} times, {} rounds",
                bytes(len),
                arguments.loops,
                arguments.rounds
            ),
            sides: subjects.into_iter().map(|subject| subject.side).collect(),
            measures: Measure::new(name, Unit::Seconds, times)
                .into_iter()
                .collect(),
            notes,
        });
    }
    bar.finish_and_clear();
    Ok(comparisons)
}

impl Subject {
    /// Seconds that `loops` changes to read-only and back take.
    fn toggle(&self, loops: u32) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..loops {
            self.region.protect(0, self.len, READ)?;
            self.region.protect(0, self.len, READ_WRITE)?;
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::new("memory", plain(error))
}

/// Base pages, and huge pages mapped by PTEs, as the kernel makes them.
fn memory(
    len: u64,
    leaf: Leaf,
    page: Leaf,
    notes: &mut Vec<String>,
) -> Result<Vec<Subject>, Failure> {
    let base = anonymous(len, leaf, page, &[Advice::NoHugePage]).map_err(|error| failed(&error))?;
    let mut subjects = vec![Subject {
        side: Side {
            name: "base pages".to_owned(),
            state: format!("{page} pages, MADV_NOHUGEPAGE"),
        },
        region: base,
        len: len as usize,
    }];
    let huge = anonymous(len, leaf, page, &[Advice::HugePage]).map_err(|error| failed(&error))?;
    let before = huge_bytes(huge.span()).map_err(|error| failed(&error))?;
    // A change of one page's rights splits the mapping; the folio stays whole.
    for window in (0..len).step_by(leaf.bytes() as usize) {
        let (offset, first) = (window as usize, page.bytes() as usize);
        let split = huge.protect(offset, first, READ);
        split
            .and_then(|()| huge.protect(offset, first, READ_WRITE))
            .map_err(|error| failed(&error))?;
    }
    let after = huge_bytes(huge.span()).map_err(|error| failed(&error))?;
    if before < len / 10 * 9 || after > 0 {
        notes.push(format!(
            "huge pages mapped by PTEs left out: of {}, {} were huge and {} could not be split",
            bytes(len),
            bytes(before),
            bytes(after)
        ));
    } else {
        subjects.push(Subject {
            side: Side {
                name: format!("{leaf} folios by PTEs"),
                state: format!("{} were mapped huge, then split", bytes(before)),
            },
            region: huge,
            len: len as usize,
        });
    }
    Ok(subjects)
}

fn anonymous(len: u64, leaf: Leaf, page: Leaf, advices: &[Advice]) -> io::Result<Region> {
    let region = Region::anonymous(usize::try_from(len).map_err(io::Error::other)?, leaf)?;
    for advice in advices {
        region.advise(*advice)?;
    }
    region.dirty(page.bytes() as usize);
    Ok(region)
}

/// The same over the page cache, where the size of the writes decides that of the folios.
fn files(arguments: &Arguments, leaf: Leaf, page: Leaf) -> Result<Vec<Subject>, Failure> {
    let path = arguments
        .directory
        .clone()
        .unwrap_or_else(std::env::temp_dir);
    let failed = |error: io::Error| Failure::io(&path, &error);
    let directory = File::open(&path).map_err(failed)?;
    let len = leaf.align_up((arguments.size << 20) / 4);
    let free = free_bytes(&directory).map_err(failed)?;
    if free < len.saturating_mul(2) {
        let problem = format!(
            "{} free is too little for two files of {}",
            bytes(free),
            bytes(len)
        );
        return Err(Failure::at(&path, problem).remedy("lower --size, or name another --directory"));
    }
    let sizes = [("base pages", page), ("64K folios", Leaf::K64)];
    let subjects = sizes.map(|(name, piece)| {
        let mut file = unnamed_file(&directory)?;
        let buffer = vec![1; piece.bytes() as usize];
        for _ in 0..len / piece.bytes() {
            file.write_all(&buffer)?;
        }
        let region = Region::of_file(&file, 0, len as usize, leaf, READ_WRITE)?;
        region.touch(page.bytes() as usize);
        Ok(Subject {
            side: Side {
                name: name.to_owned(),
                state: folios(region.span(), piece),
            },
            region,
            len: len as usize,
        })
    });
    subjects
        .into_iter()
        .collect::<io::Result<_>>()
        .map_err(failed)
}

/// How the file was written, and what the page map says of it where it may be read.
fn folios(addresses: Span, piece: Leaf) -> String {
    let found = || {
        let pagemap = File::open("/proc/self/pagemap").ok()?;
        let sizes = hugetext_host::folio_sizes(&pagemap, addresses).ok()?;
        let exact = sizes.iter().filter(|(_, folio)| *folio == piece.bytes());
        let exact: u64 = exact.map(|(pages, _)| pages.len()).sum();
        Some(format!("{} in folios of {piece}", bytes(exact)))
    };
    let found = found().unwrap_or_else(|| "folio sizes need root".to_owned());
    format!("written in pieces of {piece}; {found}")
}

fn huge_bytes(addresses: Span) -> io::Result<u64> {
    let huge = huge_spans(&File::open("/proc/self/pagemap")?, addresses)?;
    Ok(huge.iter().map(Span::len).sum())
}
