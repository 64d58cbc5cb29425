//! Uprobes on promoted text.
//!
//! The kernel sets a uprobe on an inode and an offset. After promotion the process maps another
//! inode there, so a probe on the program file no longer fires in it, without a word. A probe on the
//! file of the copy does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use hugetext_leaf::FileId;

use crate::arch::{Architecture, Native};
use crate::target::Mappings;

/// A uprobe event of tracefs on text that a process has promoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// GROUP/EVENT.
    pub event: String,
    /// Address of the instruction in the process.
    pub address: u64,
    /// Whether it is set on the copy, where it fires, and not on the program file.
    pub on_copy: bool,
}

/// The uprobe events on text that a process has promoted, as far as tracefs lists them. Probes that
/// perf_event_open(2) and BPF links create are not listed anywhere.
pub fn probes(mappings: &Mappings) -> Vec<Probe> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let read = |place: &&str| fs::read(format!("{place}/uprobe_events")).ok();
    let Some(events) = places.iter().find_map(read) else {
        return Vec::new();
    };
    events
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .flat_map(|(event, path, offset)| {
            let file = fs::metadata(OsStr::from_bytes(path)).map(|metadata| FileId {
                dev: metadata.dev(),
                ino: metadata.ino(),
            });
            file.into_iter().flat_map(move |file| {
                let place = move |address, on_copy| Probe {
                    event: event.to_owned(),
                    address,
                    on_copy,
                };
                places_of(mappings, file, offset).map(move |(at, on_copy)| place(at, on_copy))
            })
        })
        .collect()
}

/// The addresses where copies map this offset of a file, each with whether the file is the copy.
fn places_of(mappings: &Mappings, file: FileId, offset: u64) -> impl Iterator<Item = (u64, bool)> {
    mappings.copies().filter_map(move |(vma, name)| {
        let on_copy = vma.file == Some(file);
        let in_copy = match (on_copy, name.file == file) {
            (true, _) => offset,
            (_, true) => offset.checked_add(name.shift())?,
            _ => return None,
        };
        let address = vma.addresses.start + in_copy.checked_sub(vma.offset)?;
        vma.addresses
            .contains(address)
            .then_some((address, on_copy))
    })
}

/// A line of uprobe_events (Documentation/trace/uprobetracer.rst): `p:GROUP/EVENT PATH:OFFSET …`. Only the path may hold
/// bytes that are not UTF-8.
fn parse(line: &[u8]) -> Option<(&str, &[u8], u64)> {
    const OFFSET: &[u8] = b":0x";
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (kind, rest) = (line.get(..space)?, line.get(space + 1..)?);
    let (_, event) = str::from_utf8(kind).ok()?.split_once(':')?;
    // The path may hold spaces, and arguments may follow the offset.
    let at = rest
        .windows(OFFSET.len())
        .rposition(|part| part == OFFSET)?;
    let (path, offset) = (rest.get(..at)?, rest.get(at + OFFSET.len()..)?);
    let digits = offset.split(|byte| !byte.is_ascii_hexdigit()).next()?;
    let offset = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((event, path, offset))
}

/// The places where `memory` differs from `file` by the breakpoint of a uprobe; `None` if it differs
/// otherwise. Both begin at an instruction.
pub(crate) fn breakpoints(memory: &[u8], file: &[u8]) -> Option<Vec<usize>> {
    let len = Native::UPROBE.len();
    let mut found = Vec::new();
    let differs = |(at, (one, other)): (usize, (&u8, &u8))| (one != other).then_some(at);
    for at in memory.iter().zip(file).enumerate().filter_map(differs) {
        let start = at & !(Native::INSTRUCTION_ALIGNMENT - 1);
        if found.last() == Some(&start) {
            continue;
        }
        if memory.get(start..start + len) != Some(Native::UPROBE) {
            return None;
        }
        found.push(start);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_a_file_and_an_offset() {
        let line = b"p:probe_a/main /usr/bin/a\xff file:0x0000000000001139 arg1=%di";
        let parsed = ("probe_a/main", &b"/usr/bin/a\xff file"[..], 0x1139);
        assert_eq!(parse(line), Some(parsed));
        assert_eq!(parse(b"p:a/b"), None);
        assert_eq!(parse(b"p:a/b /x:0x"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_breakpoint_is_told_from_another_change() {
        let file = [0x90; 16];
        let mut memory = file;
        assert_eq!(breakpoints(&memory, &file), Some(vec![]));
        memory[4..4 + Native::UPROBE.len()].copy_from_slice(Native::UPROBE);
        assert_eq!(breakpoints(&memory, &file), Some(vec![4]));
        memory[8] = 0x91;
        assert_eq!(breakpoints(&memory, &file), None);
    }
}
