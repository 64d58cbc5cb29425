//! What this machine runs and has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hugetext_auto::status::{FileStatus, State, Status};
use hugetext_engine::{HostContext, Program, ProgramOnHost, is_native};
use hugetext_host::{
    Pid, cgroups, limit_listing, memory_group, memory_limit_of, open_without_waiting, pids,
    text_mappings,
};
use hugetext_leaf::FileId;

use crate::facts::{Facts, Ground};
use crate::row::{Moment, Row, Use, rows};

/// The most processes that are looked at.
const MOST: usize = 65_536;

/// A file that is run, by device and inode.
#[derive(Debug)]
struct Running {
    /// Its path for the processes that run it.
    path: PathBuf,
    /// Where this process opens it.
    open: PathBuf,
    /// Text that PMD leaves map, by offset: that of the process with most.
    huge: BTreeMap<u64, u64>,
    /// The lowest memory limit of a process that runs it, in bytes.
    memory_limit: Option<u64>,
}

/// Memory limits of control groups that were asked for, by the group's path.
#[derive(Debug, Default)]
struct MemoryLimits(BTreeMap<String, Option<u64>>);

impl MemoryLimits {
    /// Bytes that the control groups of a process allow; `None` if they set no limit, or cannot be read.
    fn of(&mut self, pid: Pid) -> Option<u64> {
        let group = memory_group(cgroups(pid).ok()?)?;
        let known = self.0.entry(group.pathname.clone());
        *known.or_insert_with(|| memory_limit_of(group).ok().flatten())
    }
}

/// The rows of all that runs, of what the autopilot knows, and of the programs below `directories`. What
/// cannot be read is reported to `tell`.
pub(crate) fn host_rows(
    moment: &Moment,
    host: &HostContext,
    status: Option<&Status>,
    directories: &[PathBuf],
    tell: &mut dyn FnMut(String),
) -> Vec<Row> {
    // A process that waits for a dead server in mmap(2) must not stop the inventory of its machine.
    limit_listing();
    let mut files = running();
    let known = status.map_or(&[][..], |status| &status.files);
    for path in known.iter().map(|file| &file.path) {
        add(&mut files, path);
    }
    for directory in directories {
        for entry in walkdir::WalkDir::new(directory) {
            match entry {
                Ok(entry) if entry.file_type().is_file() => add(&mut files, entry.path()),
                Ok(_) => {}
                Err(error) => tell(error.to_string()),
            }
        }
    }
    let by_path: BTreeMap<&Path, &FileStatus> = known
        .iter()
        .flat_map(|file| [(file.name.as_path(), file), (file.path.as_path(), file)])
        .collect();
    let mut all = Vec::new();
    for file in files.values() {
        let status = by_path
            .get(file.path.as_path())
            .or(by_path.get(file.open.as_path()));
        let used = used(file, status.copied());
        if let Some((facts, ground)) = facts(&file.open, host) {
            let path = file.path.to_string_lossy();
            all.extend(rows(moment, None, &path, (&facts, &ground), &used));
        }
    }
    all
}

fn used(file: &Running, status: Option<&FileStatus>) -> Use {
    let refused = status.filter(|status| status.state == State::Refused);
    Use {
        starts: status.map_or(0.0, |status| status.starts),
        cpu_ns: status.and_then(|status| status.cpu_ns).unwrap_or(0),
        refused: refused.map(|status| status.cause.label().to_owned()),
        huge: file
            .huge
            .iter()
            .map(|(offset, bytes)| (*offset, *bytes))
            .collect(),
        memory_limit: file.memory_limit,
    }
}

/// What processes run, as far as this one may see them.
fn running() -> BTreeMap<FileId, Running> {
    let mut files: BTreeMap<FileId, Running> = BTreeMap::new();
    let mut limits = MemoryLimits::default();
    for pid in pids().unwrap_or_default().into_iter().take(MOST) {
        // It has ended, it is a thread of the kernel, or another user's.
        let Ok(mappings) = text_mappings(pid) else {
            continue;
        };
        let limit = limits.of(pid);
        for text in mappings {
            let Some(path) = text.path.filter(|_| !text.deleted) else {
                continue;
            };
            let open = match path.strip_prefix("/") {
                Ok(inside) => Path::new(&format!("/proc/{pid}/root")).join(inside),
                Err(_) => continue,
            };
            let Some(id) = text.file else { continue };
            let file = files.entry(id).or_insert(Running {
                path,
                open,
                huge: BTreeMap::new(),
                memory_limit: None,
            });
            file.memory_limit = file.memory_limit.into_iter().chain(limit).min();
            let huge = file.huge.entry(text.offset).or_default();
            *huge = text.pmd_mapped.max(*huge);
        }
    }
    files
}

/// Adds a file that nobody runs at this moment.
fn add(files: &mut BTreeMap<FileId, Running>, path: &Path) {
    let Ok(there) = fs::metadata(path) else {
        return;
    };
    files.entry(FileId::of(&there)).or_insert(Running {
        path: path.to_owned(),
        open: path.to_owned(),
        huge: BTreeMap::new(),
        memory_limit: None,
    });
}

/// What a file is; `None` if it is no program, or gone by now.
fn facts(path: &Path, host: &HostContext) -> Option<(Facts, Ground)> {
    let file: File = open_without_waiting(path).ok()?;
    let program = Program::from_file(path, file).ok()?;
    if program.image.text_len() == 0 {
        return None;
    }
    let is_own = is_native(&program.image);
    let on_host = ProgramOnHost::new(program, host).ok()?;
    let ground = Ground {
        kernel: on_host.loader.kernel,
        filesystem: on_host.pages,
        geometry: host.geometry.filter(|_| is_own),
        dl_honours_align: on_host.loader.dl_honours_align,
    };
    let program = &on_host.program;
    Some((Facts::of(&program.image, &program.file, &ground), ground))
}
