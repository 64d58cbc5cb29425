//! Measures whether this kernel changes the rights of a large folio's
//! pages in one batch (Linux 6.17, mm/mprotect.c), or page by page.
//!
//! Page by page, large folios that PTEs map cost as much as base pages, or more.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use hugetext_engine::{HostContext, plain};
use hugetext_host::{Region, Written, anonymous_folios, unnamed_file};
use hugetext_leaf::{Leaf, Perms, Span};

use hugetext_bench::BenchError;
use hugetext_bench::BenchStop;
use hugetext_bench::Interrupt;
use hugetext_bench::Observer;
use hugetext_bench::Rounds;
use hugetext_bench::quantity::{bytes, count};
use hugetext_bench::{Comparison, Measure, Side, Unit};
use hugetext_bench::{directory, has_room};

/// What to change, and how often.
#[derive(Debug, Clone)]
pub(crate) struct MprotectSettings {
    /// How many rounds; each measures every side.
    pub(crate) rounds: u32,
    /// Size of the memory, in MiB; files are a quarter of it.
    pub(crate) size: u64,
    /// Changes to read-only and back in a round.
    pub(crate) loops: u32,
    /// The directory for the files, which have no name; by default that for temporary files.
    pub(crate) directory: Option<PathBuf>,
    /// The benchmark ends with an error after this many seconds.
    pub(crate) timeout: u64,
}

impl MprotectSettings {
    /// The default settings.
    pub(crate) fn usual(quick: bool) -> MprotectSettings {
        MprotectSettings {
            rounds: if quick { 2 } else { 6 },
            size: if quick { 16 } else { 1024 },
            loops: if quick { 2 } else { 40 },
            directory: None,
            timeout: 600,
        }
    }
}

/// The folios of the thread's T2.
const BLOCK: Leaf = Leaf::K64;
const FOLIOS_HIDDEN: &str = "folio sizes are visible to root only";
const READ_WRITE: Perms = Perms {
    read: true,
    write: true,
    exec: false,
};

/// Memory whose rights are changed.
struct Subject {
    side: Side,
    memory: Written,
}

/// Times changes of the access rights of memory.
pub(crate) fn bench_mprotect(
    settings: &MprotectSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let bounds = interrupt.within(settings.timeout);
    let host = HostContext::with_huge_pages()?;
    let (leaf, page) = (host.leaf, host.page);
    let mut notes =
        vec!["only the mprotect calls are timed; no page is written between them".to_owned()];
    let len = leaf.align_up(settings.size << 20) as usize;
    let memory = memory(len, leaf, page, &mut notes).map_err(|error| failed(&error))?;
    let files = files(settings, leaf, page)?;
    let steps = u64::from(settings.rounds) * 2;
    observer.begin("rounds", steps);
    let mut comparisons = Vec::new();
    for (what, subjects, notes) in [
        ("anonymous memory", memory, notes),
        ("a file mapped privately", files, Vec::new()),
    ] {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
        let rounds = Rounds {
            count: settings.rounds,
        };
        for order in rounds.orders(subjects.len()) {
            for index in order {
                bounds.check()?;
                if let (Some(subject), Some(times)) = (subjects.get(index), times.get_mut(index)) {
                    let time = subject.memory.toggle(settings.loops);
                    times.push(time.map_err(|error| failed(&error))?.as_secs_f64());
                }
            }
            observer.step();
        }
        let first = subjects.first();
        let len = first.map_or(0, |subject| subject.memory.region().span().len());
        let name = "all changes";
        comparisons.push(Comparison {
            benchmark: "mprotect".to_owned(),
            title: format!(
                "{} of {what}, to read-only and back {}, {}",
                bytes(len),
                count(settings.loops, "time"),
                count(settings.rounds, "round")
            ),
            sides: subjects.into_iter().map(|subject| subject.side).collect(),
            measures: Measure::new(name, Unit::Seconds, times)
                .into_iter()
                .collect(),
            notes,
            measured: None,
        });
    }
    observer.end();
    Ok(comparisons)
}

fn failed(error: &io::Error) -> BenchError {
    BenchError::new("memory", plain(error))
}

/// Base pages, huge pages mapped by PTEs, and 64K folios if the system is set to make them.
fn memory(len: usize, leaf: Leaf, page: Leaf, notes: &mut Vec<String>) -> io::Result<Vec<Subject>> {
    let mut subjects = vec![Subject {
        side: Side {
            name: "base pages".to_owned(),
            state: format!("{page} pages, MADV_NOHUGEPAGE"),
        },
        memory: Written::in_base_pages(len, page, leaf)?,
    }];
    match split(len, page, leaf)? {
        Ok(subject) => subjects.push(subject),
        Err(reason) => notes.push(format!("huge pages mapped by PTEs left out: {reason}")),
    }
    match blocks(len, page, leaf)? {
        Ok(subject) => subjects.push(subject),
        Err(reason) => notes.push(format!("{BLOCK} folios left out here: {reason}")),
    }
    Ok(subjects)
}

/// The thread's T1, or the reason that it cannot be made.
fn split(len: usize, page: Leaf, leaf: Leaf) -> io::Result<Result<Subject, String>> {
    let memory = Written::in_huge_pages(len, page, leaf)?;
    let before = memory.region().pmd_mapped()?;
    memory.split_leaves()?;
    let after = memory.region().pmd_mapped()?;
    let whole = len as u64;
    if before < whole / 10 * 9 || after > 0 {
        return Ok(Err(format!(
            "of {}, {} were huge and {} could not be split",
            bytes(whole),
            bytes(before),
            bytes(after)
        )));
    }
    let side = Side {
        name: format!("{leaf} folios by PTEs"),
        state: format!("{} were mapped huge, then split", bytes(before)),
    };
    Ok(Ok(Subject { side, memory }))
}

/// The thread's T2, or the reason that it cannot be made.
fn blocks(len: usize, page: Leaf, leaf: Leaf) -> io::Result<Result<Subject, String>> {
    match anonymous_folios(BLOCK).as_deref() {
        None => return Ok(Err("this kernel has no setting for this size".to_owned())),
        Some("never") => {
            let path = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
            return Ok(Err(format!("{path} is set to never")));
        }
        Some(_) => {}
    }
    let memory = Written::in_folios(len, BLOCK, page, leaf)?;
    let state = match in_folios(memory.region().span(), BLOCK) {
        Some(found) if found < len as u64 / 10 * 9 => {
            return Ok(Err(format!("the kernel made {}", bytes(found))));
        }
        Some(found) => format!("{} in folios of {BLOCK}", bytes(found)),
        None => FOLIOS_HIDDEN.to_owned(),
    };
    let side = Side {
        name: format!("{BLOCK} folios"),
        state,
    };
    Ok(Ok(Subject { side, memory }))
}

/// The same for the page cache, where the size of the writes decides the size of the folios.
fn files(settings: &MprotectSettings, leaf: Leaf, page: Leaf) -> Result<Vec<Subject>, BenchError> {
    let path = directory(settings.directory.as_ref());
    let failed = |error: io::Error| BenchError::io(&path, &error);
    let directory = File::open(&path).map_err(failed)?;
    let len = leaf.align_up((settings.size << 20) / 4);
    has_room(&path, len.saturating_mul(2))?;
    let sizes = [("base pages", page), ("64K folios", BLOCK)];
    let subjects = sizes.map(|(name, piece)| {
        let mut file = unnamed_file(&directory)?;
        let buffer = vec![1; piece.bytes() as usize];
        for _ in 0..len / piece.bytes() {
            file.write_all(&buffer)?;
        }
        let region = Region::of_file(&file, 0, len as usize, leaf, READ_WRITE)?;
        let memory = Written::of_file(region, page, leaf);
        let found = match in_folios(memory.region().span(), piece) {
            Some(found) => format!("{} in folios of {piece}", bytes(found)),
            None => FOLIOS_HIDDEN.to_owned(),
        };
        Ok(Subject {
            side: Side {
                name: name.to_owned(),
                state: format!("written in pieces of {piece}; {found}"),
            },
            memory,
        })
    });
    subjects
        .into_iter()
        .collect::<io::Result<_>>()
        .map_err(failed)
}

/// Bytes in folios of that size; `None` where the page map may not be read.
fn in_folios(addresses: Span, size: Leaf) -> Option<u64> {
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let sizes = hugetext_host::folio_sizes(&pagemap, addresses).ok()?;
    let exact = sizes.iter().filter(|(_, folio)| *folio == size.bytes());
    Some(exact.map(|(pages, _)| pages.len()).sum())
}
