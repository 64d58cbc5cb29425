//! Which processes map a file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hugetext_leaf::FileId;
use schemars::JsonSchema;
use serde::Serialize;

use super::ask::MappingsFile;
use super::budget::ListBudget;
use super::id::Pid;
use super::process::{pids, process_name};

/// A process that maps a file.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Holder {
    /// Its process id.
    pub pid: Pid,
    /// Its name (/proc/PID/comm).
    pub name: String,
}

/// The processes that map `file`, except this one, as far as this user may see them, and as far as a budget of work
/// goes: the processes of a user with very many mappings may be missing.
pub fn holders(file: &File) -> io::Result<Vec<Holder>> {
    Ok(FileUsers::look()?.of(FileId::of(&file.metadata()?)))
}

/// As [`holders`], from an earlier look at all processes if that took long and was a short time ago: looking takes at
/// most a fiftieth of the time of whoever asks again and again.
pub fn recent_holders(file: &File) -> io::Result<Vec<Holder>> {
    static LAST: Mutex<Option<FileUsers>> = Mutex::new(None);
    let id = FileId::of(&file.metadata()?);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some(users) if users.is_recent() => Ok(users.of(id)),
        _ => Ok(last.insert(FileUsers::look()?).of(id)),
    }
}

/// How many times as long as a look took it stands for.
const REST: u32 = 50;
/// A look that takes less costs nobody anything, and stands for nothing later.
const CHEAP: Duration = Duration::from_millis(50);

/// Who maps which file.
struct FileUsers {
    users: HashMap<FileId, Vec<Pid>>,
    begun: Instant,
    took: Duration,
}

impl FileUsers {
    fn look() -> io::Result<FileUsers> {
        let begun = Instant::now();
        let mut budget = ListBudget::new(ListBudget::MAPS);
        let mut users: HashMap<FileId, Vec<Pid>> = HashMap::new();
        let own = Pid::own();
        for pid in pids().map_err(io::Error::other)? {
            if pid == own {
                continue;
            }
            // It has ended, is another user's, or has very many mappings.
            let Ok(list) = budget.read(pid, MappingsFile::Maps) else {
                continue;
            };
            for id in list.split(|byte| *byte == b'\n').filter_map(file_of_line) {
                let of_file = users.entry(id).or_default();
                if of_file.last() != Some(&pid) {
                    of_file.push(pid);
                }
            }
        }
        Ok(FileUsers {
            users,
            begun,
            took: begun.elapsed(),
        })
    }

    fn is_recent(&self) -> bool {
        self.took > CHEAP && self.begun.elapsed() < self.took.saturating_mul(REST)
    }

    fn of(&self, file: FileId) -> Vec<Holder> {
        let pids = self.users.get(&file).into_iter().flatten();
        pids.map(|pid| Holder {
            pid: *pid,
            name: process_name(*pid),
        })
        .collect()
    }
}

/// The file in a line of /proc/PID/maps; `None` for memory without one.
fn file_of_line(line: &[u8]) -> Option<FileId> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (device, inode) = (fields.nth(3)?, fields.next()?);
    let (major, minor) = str::from_utf8(device).ok()?.split_once(':')?;
    let number = |hex| u32::from_str_radix(hex, 16).ok();
    let ino = str::from_utf8(inode)
        .ok()?
        .parse()
        .ok()
        .filter(|ino| *ino != 0)?;
    Some(FileId {
        dev: rustix::fs::makedev(number(major)?, number(minor)?),
        ino,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_line_names_its_file() {
        let line = b"7f00-7f01 r-xp 00001000 fe:10 1234                       /a b\xff";
        let id = file_of_line(line).unwrap();
        assert_eq!((id.dev, id.ino), (rustix::fs::makedev(0xfe, 0x10), 1234));
        let anonymous = b"7f00-7f01 rw-p 00000000 00:00 0 ";
        assert_eq!(file_of_line(anonymous), None);
        assert_eq!(file_of_line(b""), None);
    }

    #[test]
    fn a_process_holds_what_it_runs() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let program = File::open(format!("/proc/{}/exe", child.id())).unwrap();
        let pid = Pid::of_child(&child);
        // The child may not have executed it yet when it was started.
        let holds = |found: io::Result<Vec<Holder>>| found.unwrap().iter().any(|by| by.pid == pid);
        assert!((0..10_000).any(|_| holds(holders(&program))));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!holds(holders(&program)));
    }
}
