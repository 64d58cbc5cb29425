//! Sees which process maps which text: by the best of three sources that the kernel grants.
//! docs/auto.md compares them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugetext_host::{
    ListBudget, MappedFile, Pid, ProcessAsker, Sideband, Start, Starts, TextMaps, mapped_text,
    mapped_text_within, pids,
};
use hugetext_leaf::FileId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open::ensure_answers;

/// A source of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceName {
    /// The records that the kernel makes for profilers: programs and libraries, with their inodes.
    Records,
    /// The proc connector and fanotify: programs. Their libraries are looked up while they run.
    Reports,
    /// Looking at all processes again and again: what runs for a while.
    Scan,
}

/// Sees starts.
#[derive(Debug)]
pub enum Sight {
    /// By records.
    Records(TextMaps),
    /// By reports.
    Reports(Reports),
    /// By scans.
    Scan(Scan),
}

impl Sight {
    /// The best source that this process may use, and why not the better ones.
    pub fn open() -> (Sight, Vec<(SourceName, io::Error)>) {
        let mut refused = Vec::new();
        for name in [SourceName::Records, SourceName::Reports] {
            match Sight::of(name) {
                Ok(sight) => return (sight, refused),
                Err(error) => refused.push((name, error)),
            }
        }
        (Sight::Scan(Scan::default()), refused)
    }

    /// One source.
    pub fn of(name: SourceName) -> io::Result<Sight> {
        Ok(match name {
            SourceName::Records => Sight::Records(TextMaps::new()?),
            SourceName::Reports => Sight::Reports(Reports::new()?),
            SourceName::Scan => Sight::Scan(Scan::default()),
        })
    }

    /// Which source it is.
    pub fn name(&self) -> SourceName {
        match self {
            Sight::Records(_) => SourceName::Records,
            Sight::Reports(_) => SourceName::Reports,
            Sight::Scan(_) => SourceName::Scan,
        }
    }

    /// Waits until much has been seen, `also` can be read, or `timeout` has passed, and tells `seen` what
    /// processes did.
    pub fn wait(
        &mut self,
        timeout: Duration,
        also: impl AsFd,
        seen: impl FnMut(Sideband),
    ) -> io::Result<()> {
        match self {
            Sight::Records(maps) => maps.wait(timeout, also, seen),
            Sight::Reports(reports) => reports.wait(timeout, also, seen),
            Sight::Scan(scan) => scan.wait(timeout, also, seen),
        }
    }
}

/// A program that has ended is looked up by its path, and this is the longest wait for it.
const LIMIT: Duration = Duration::from_millis(250);

/// Hears of starts, and looks up what each process maps.
#[derive(Debug)]
pub struct Reports {
    starts: Starts,
    asker: ProcessAsker<Option<FileId>>,
}

impl Reports {
    fn new() -> io::Result<Reports> {
        Ok(Reports {
            starts: Starts::new()?,
            asker: ProcessAsker::new(LIMIT),
        })
    }

    fn wait(
        &mut self,
        timeout: Duration,
        also: impl AsFd,
        mut seen: impl FnMut(Sideband),
    ) -> io::Result<()> {
        for start in self.starts.wait(timeout, also)? {
            self.tell(start, &mut seen);
        }
        Ok(())
    }

    /// A report as a record.
    fn tell(&mut self, start: Start, seen: &mut impl FnMut(Sideband)) {
        match start {
            Start::Fork { parent, child } => seen(Sideband::Fork { parent, child }),
            Start::Exit { pid } => seen(Sideband::Exit { pid }),
            Start::Lost => seen(Sideband::Lost(1)),
            Start::Exec { pid, program } => match mapped_text(pid) {
                Ok(files) if !files.is_empty() => files
                    .into_iter()
                    .for_each(|file| seen(text(pid, file.path, file.file))),
                _ => match program.and_then(|program| self.ended(pid, program)) {
                    Some((program, id)) => seen(text(pid, program, id)),
                    None => seen(Sideband::Lost(1)),
                },
            },
        }
    }

    /// The program of a process that has ended.
    fn ended(&mut self, pid: Pid, program: PathBuf) -> Option<(PathBuf, FileId)> {
        let path = program.clone();
        let id = self.asker.ask(pid, move || id_of(&path))??;
        Some((program, id))
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    ensure_answers(path).ok()?;
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then(|| FileId::of(&metadata))
}

fn text(pid: Pid, path: PathBuf, id: FileId) -> Sideband {
    let file = MappedFile { id, generation: 0 };
    Sideband::Text { pid, file, path }
}

/// Looks at all processes. Those that end between two looks are not seen.
#[derive(Debug, Default)]
pub struct Scan {
    known: HashSet<Pid>,
    last: Option<Instant>,
}

impl Scan {
    /// The time between two looks.
    const EVERY: Duration = Duration::from_secs(2);

    fn wait(
        &mut self,
        timeout: Duration,
        also: impl AsFd,
        mut seen: impl FnMut(Sideband),
    ) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&also, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.last.is_some_and(|last| last.elapsed() < Scan::EVERY) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let now: HashSet<Pid> = pids().map_err(io::Error::other)?.into_iter().collect();
        let mut budget = ListBudget::new(ListBudget::MAPS);
        for pid in now.difference(&self.known) {
            for file in mapped_text_within(*pid, &mut budget).unwrap_or_default() {
                seen(text(*pid, file.path, file.file));
            }
        }
        for pid in self.known.difference(&now) {
            seen(Sideband::Exit { pid: *pid });
        }
        self.known = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_source_and_it_sees_this_process_by_a_scan() {
        let (sight, refused) = Sight::open();
        println!("source {:?}, refused {refused:?}", sight.name());
        let mut scan = Sight::of(SourceName::Scan).unwrap();
        let own = FileId::of(&fs::metadata("/proc/self/exe").unwrap());
        let mut found = false;
        let never = fs::File::open("/proc/self/mounts").unwrap();
        let look = |told| {
            if let Sideband::Text { pid, file, .. } = told {
                found |= pid == Pid::own() && file.id.ino == own.ino;
            }
        };
        scan.wait(Duration::ZERO, &never, look).unwrap();
        assert!(found);
    }
}
