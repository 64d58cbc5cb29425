//! Running processes and the text that they map.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hugetext_leaf::{FileId, Perms, Span};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use schemars::JsonSchema;
use serde::Serialize;

use super::ask::{MappingsFile, read_mappings};
use super::budget::ListBudget;
use super::error::ProcessError;
use super::id::{Pid, Tid};
use super::status::ProcessStatus;
use crate::listed::parse_mappings;
use crate::names::escaped;

/// One executable mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextMapping {
    /// Its addresses.
    pub addresses: Span,
    /// File offset of the first address; 0 for anonymous memory.
    pub offset: u64,
    /// Access rights.
    pub perms: Perms,
    /// The file; `None` for anonymous memory and the vDSO.
    #[serde(serialize_with = "crate::lossy::optional_path")]
    #[schemars(with = "Option<String>")]
    pub path: Option<PathBuf>,
    /// The numbers of the file; `None` for anonymous memory and the vDSO.
    pub file: Option<FileId>,
    /// Whether the file is no longer at its path: replaced or removed since it was mapped.
    pub deleted: bool,
    /// Resident bytes of the mapping.
    pub rss: u64,
    /// Resident bytes, each page divided by the number of processes that map it.
    pub pss: u64,
    /// Resident bytes of anonymous memory: text that was written to or copied, or has no file.
    pub anonymous: u64,
    /// Bytes mapped by PMD leaves (FilePmdMapped, ShmemPmdMapped, AnonHugePages).
    pub pmd_mapped: u64,
}

/// The executable mappings of a process, by address; at least one.
pub fn text_mappings(pid: Pid) -> Result<Vec<TextMapping>, ProcessError> {
    texts(read_maps(pid, MappingsFile::Smaps)?)
}

/// The same within a budget of work.
pub fn text_mappings_within(
    pid: Pid,
    budget: &mut ListBudget,
) -> Result<Vec<TextMapping>, ProcessError> {
    texts(parsed(&budget.read(pid, MappingsFile::Smaps)?)?)
}

fn texts(maps: Vec<MemoryMap>) -> Result<Vec<TextMapping>, ProcessError> {
    let texts: Vec<TextMapping> = maps
        .into_iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter(|map| !matches!(map.pathname, MMapPath::Vsyscall))
        .map(text_mapping)
        .collect();
    if texts.is_empty() {
        return Err(ProcessError::NoText);
    }
    Ok(texts)
}

/// The number of file mappings of a process. Each was one insertion into the `i_mmap` tree of its
/// file, under that file's lock.
pub fn file_mappings(pid: Pid) -> Result<usize, ProcessError> {
    let maps = read_maps(pid, MappingsFile::Maps)?;
    Ok(maps.into_iter().filter(|map| map.inode != 0).count())
}

/// The files that a process maps executable, without the figures of [`text_mappings`], for which
/// the kernel walks its page tables. Files that were removed are left out.
pub fn executable_files(pid: Pid) -> Result<Vec<PathBuf>, ProcessError> {
    let maps = read_maps(pid, MappingsFile::Maps)?;
    let mut files: Vec<PathBuf> = maps
        .into_iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter_map(|map| match map.pathname {
            MMapPath::Path(path) if !path.to_string_lossy().ends_with(" (deleted)") => Some(path),
            _ => None,
        })
        .collect();
    files.dedup();
    Ok(files)
}

/// A file that a process maps executable, as /proc/PID/maps names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedText {
    /// Its path, as the root directory of the process shows it.
    pub path: PathBuf,
    /// The numbers of the file.
    pub file: FileId,
    /// Bytes that are mapped executable.
    pub bytes: u64,
}

/// The files that a process maps executable, each with all its mappings.
pub fn mapped_text(pid: Pid) -> Result<Vec<MappedText>, ProcessError> {
    let mut budget = ListBudget::new(ListBudget::MAPS);
    mapped_text_within(pid, &mut budget)
}

/// The same within a budget of work.
pub fn mapped_text_within(
    pid: Pid,
    budget: &mut ListBudget,
) -> Result<Vec<MappedText>, ProcessError> {
    let mut files: Vec<MappedText> = Vec::new();
    let mut numbers: HashMap<FileId, usize> = HashMap::new();
    for map in parsed(&budget.read(pid, MappingsFile::Maps)?)? {
        let file = file_id(&map);
        let MMapPath::Path(path) = map.pathname else {
            continue;
        };
        if !map.perms.contains(MMPermissions::EXECUTE) {
            continue;
        }
        let bytes = map.address.1.saturating_sub(map.address.0);
        let number = *numbers.entry(file).or_insert(files.len());
        match files.get_mut(number) {
            Some(known) => known.bytes = known.bytes.saturating_add(bytes),
            None => files.push(MappedText { path, file, bytes }),
        }
    }
    Ok(files)
}

/// Lists the mappings.
pub(super) fn read_maps(pid: Pid, file: MappingsFile) -> Result<Vec<MemoryMap>, ProcessError> {
    parsed(&read_mappings(pid, file, u64::MAX)?)
}

fn parsed(list: &[u8]) -> Result<Vec<MemoryMap>, ProcessError> {
    parse_mappings(list).map_err(ProcessError::Io)
}

fn text_mapping(map: MemoryMap) -> TextMapping {
    let bytes = |key: &str| map.extension.map.get(key).copied().unwrap_or(0);
    let (path, deleted) = match map.pathname {
        MMapPath::Path(ref path) => {
            let bytes = path.as_os_str().as_bytes();
            match bytes.strip_suffix(b" (deleted)") {
                Some(stripped) => (Some(OsStr::from_bytes(stripped).into()), true),
                None => (Some(path.clone()), false),
            }
        }
        _ => (None, false),
    };
    TextMapping {
        addresses: Span::new(map.address.0, map.address.1),
        offset: map.offset,
        perms: perms(map.perms),
        path,
        file: (map.inode != 0).then(|| file_id(&map)),
        deleted,
        rss: bytes("Rss"),
        pss: bytes("Pss"),
        anonymous: bytes("Anonymous"),
        pmd_mapped: pmd_mapped(&map),
    }
}

/// The access rights of a mapping.
pub fn perms(map: MMPermissions) -> Perms {
    Perms {
        read: map.contains(MMPermissions::READ),
        write: map.contains(MMPermissions::WRITE),
        exec: map.contains(MMPermissions::EXECUTE),
    }
}

/// The file of a mapping, as /proc/PID/maps names it.
pub fn file_id(map: &MemoryMap) -> FileId {
    let (major, minor) = map.dev;
    FileId {
        dev: rustix::fs::makedev(major as u32, minor as u32),
        ino: map.inode,
    }
}

/// Bytes of a mapping that PMD leaves map.
pub fn pmd_mapped(map: &MemoryMap) -> u64 {
    ["FilePmdMapped", "ShmemPmdMapped", "AnonHugePages"]
        .iter()
        .filter_map(|key| map.extension.map.get(*key))
        .sum()
}

/// Addresses and PMD-mapped bytes of this process's own mappings.
pub(crate) fn own_smaps() -> io::Result<Vec<(Span, u64)>> {
    let maps = parse_mappings(&fs::read("/proc/self/smaps")?)?;
    Ok(maps
        .into_iter()
        .map(|map| (Span::new(map.address.0, map.address.1), pmd_mapped(&map)))
        .collect())
}

/// The name of a process, which is that of its first thread; empty if it has ended. Control characters in it are
/// escaped: any process may name itself so.
pub fn process_name(pid: Pid) -> String {
    thread_name(pid.first_thread())
}

/// The name of a thread (/proc/TID/comm) as [`process_name`] gives it.
pub fn thread_name(tid: Tid) -> String {
    let name = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    escaped(&String::from_utf8_lossy(name))
}

/// All process ids, ascending. If proc is not mounted, /proc is missing or an empty directory.
pub fn pids() -> Result<Vec<Pid>, ProcessError> {
    if !Path::new("/proc/self").exists() {
        return Err(ProcessError::NoProc);
    }
    let mut pids: Vec<Pid> = fs::read_dir("/proc")
        .map_err(ProcessError::Io)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

/// The threads of a process at this moment.
pub fn threads(pid: Pid) -> io::Result<Vec<Tid>> {
    let names = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(names
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// Whether prctl(PR_SET_THP_DISABLE) is set for a process. THP_enabled in /proc/PID/status (since
/// Linux 5.0) is 0 then, and also if the kernel has no transparent huge pages.
pub fn is_thp_disabled(pid: Pid) -> Result<bool, ProcessError> {
    let status = ProcessStatus::of(pid)
        .map_err(|error| ProcessError::from(procfs::ProcError::from(error)))?;
    Ok(status.field("THP_enabled") == Some("0"))
}

/// Denies leaves to this process and to every program that it becomes: huge folios of files are mapped by tables of
/// pages, and anonymous memory gets no huge pages (prctl(PR_SET_THP_DISABLE), which execve(2) keeps).
pub fn deny_huge_mappings() -> io::Result<()> {
    // SAFETY: PR_SET_THP_DISABLE takes numbers alone.
    let denied = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if denied == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_text_of_this_process() {
        let text = text_mappings(Pid::own()).unwrap();
        let here = finds_the_text_of_this_process as fn() as usize as u64;
        let own = text
            .iter()
            .find(|mapping| mapping.addresses.contains(here))
            .unwrap();
        assert_eq!(
            own.path.as_deref(),
            Some(std::env::current_exe().unwrap().as_path())
        );
        assert!(own.rss > 0 && !own.deleted);
        let metadata = fs::metadata("/proc/self/exe").unwrap();
        assert_eq!(own.file, Some(FileId::of(&metadata)));
    }

    #[test]
    fn a_process_that_is_not_there_is_said_to_be_gone() {
        // The limit itself is never given.
        let none = Pid::from_raw(1 << 22).unwrap();
        assert!(matches!(text_mappings(none), Err(ProcessError::Gone)));
        assert!(matches!(is_thp_disabled(none), Err(ProcessError::Gone)));
    }
}
