//! What a process looks like from outside, and what must not differ after it was stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use hugetext_host::{Pid, Tid, threads};
use hugetext_leaf::{CopyName, FileId, Original, Perms, ProcessVma, Span};
use hugetext_promote::{Mappings, Target};

use crate::programs::Conduct;

/// One look at a process.
#[derive(Debug, Default)]
pub(crate) struct Look {
    threads: BTreeMap<Tid, ThreadLook>,
    /// Signals that the process ignores and catches.
    handlers: (String, String),
    files: BTreeMap<String, String>,
    places: Vec<Place>,
    mappings: usize,
}

#[derive(Debug)]
struct ThreadLook {
    state: char,
    tracer: String,
    blocked: String,
    pending: String,
    /// The call in which it waits, with arguments, stack and instruction pointer.
    call: String,
}

/// What lies at some addresses. Copies of text count as the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    addresses: Span,
    shows: Shows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    File(FileId, u64, Perms),
    Memory(Perms),
    /// Addresses without rights keep other mappings away.
    Reserved,
}

/// The text of a process and the read-only data of the same files.
#[derive(Debug)]
pub(crate) struct Content(Vec<(Span, Vec<u8>)>);

impl Look {
    /// `places`: whether its mappings are looked at, for which the process must be one that may be traced.
    pub(crate) fn at(pid: Pid, with_mappings: bool) -> io::Result<Look> {
        let mut look = Look::default();
        for tid in threads(pid)? {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}"));
            let (Ok(status), call) = (read("status"), read("syscall").unwrap_or_default()) else {
                continue;
            };
            if is_of_kernel(&read("stat").unwrap_or_default()) {
                continue;
            }
            let field = |name: &str| field(&status, name);
            look.handlers = (field("SigIgn"), field("SigCgt"));
            let thread = ThreadLook {
                state: field("State").chars().next().unwrap_or('?'),
                tracer: field("TracerPid"),
                blocked: field("SigBlk"),
                pending: field("SigPnd") + &field("ShdPnd"),
                call: call.trim().to_owned(),
            };
            look.threads.insert(tid, thread);
        }
        // Once the first thread has ended, the files at /proc/PID/fd belong to root. Those of other threads are
        // the same ones.
        let mut alive = look
            .threads
            .iter()
            .filter(|(_, thread)| thread.state != 'Z');
        let Some((tid, _)) = alive.next() else {
            return Ok(look);
        };
        for entry in fs::read_dir(format!("/proc/{pid}/task/{tid}/fd"))?.flatten() {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let name = entry.file_name().to_string_lossy().into_owned();
            look.files.insert(name, link.to_string_lossy().into_owned());
        }
        if with_mappings {
            let mappings = mappings(pid)?;
            look.mappings = mappings.vmas.len();
            look.places = places(&mappings);
        }
        Ok(look)
    }

    /// Whether every thread waits in a call.
    pub(crate) fn all_wait(&self) -> bool {
        self.threads.values().all(|thread| thread.state == 'S')
    }

    /// Whether SIGSTOP holds it.
    fn is_stopped(&self) -> bool {
        self.threads.values().any(|thread| thread.state == 'T')
    }

    /// The places of files that have text: what promotion may change.
    fn of_text(&self) -> Vec<&Place> {
        let is_text =
            |place: &&Place| matches!(place.shows, Shows::File(_, _, perms) if perms.exec);
        let file = |place: &Place| match place.shows {
            Shows::File(file, ..) => Some(file),
            _ => None,
        };
        let with_text: Vec<FileId> = self
            .places
            .iter()
            .filter(is_text)
            .filter_map(file)
            .collect();
        let of_it = |place: &&Place| file(place).is_some_and(|file| with_text.contains(&file));
        self.places.iter().filter(of_it).collect()
    }
}

/// Whether /proc/PID/task/TID/stat is that of a thread of the kernel in a process, as io_uring has them. They come
/// and go, and block all signals.
fn is_of_kernel(stat: &str) -> bool {
    /// PF_IO_WORKER and PF_USER_WORKER (include/linux/sched.h).
    const WORKER: u32 = 0x4010;
    let flags = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split(' ').nth(7));
    flags
        .and_then(|flags| flags.parse().ok())
        .is_some_and(|flags: u32| flags & WORKER != 0)
}

fn field(status: &str, name: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn mappings(pid: Pid) -> io::Result<Mappings> {
    Target::open(pid).map_err(io::Error::other)?.mappings()
}

/// What is mapped, with copies as what they stand for, and neighbours that continue each other as one.
fn places(mappings: &Mappings) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    for (vma, path) in mappings.vmas.iter().zip(&mappings.paths) {
        let name = path
            .as_ref()
            .and_then(|path| CopyName::in_maps(path.to_str()?));
        let found = match name {
            Some(name) => originals(vma, &name),
            None => vec![Place {
                addresses: vma.addresses,
                shows: shown(vma),
            }],
        };
        for place in found {
            match all.last_mut() {
                Some(last) if last.continues_in(&place) => last.addresses.end = place.addresses.end,
                _ => all.push(place),
            }
        }
    }
    all
}

impl Look {
    /// The same without a page that a killed tracer has left: it is the process' own from mmap(2) on, and the code that would
    /// unmap it learns its address a moment later (docs/promote.md).
    pub(crate) fn without_left_page(mut self, before: &Look) -> Look {
        let rights = Perms {
            read: true,
            write: true,
            exec: false,
        };
        let is_left = |place: &Place| {
            place.shows == Shows::Memory(rights)
                && place.addresses.len() == rustix::param::page_size() as u64
        };
        self.places
            .retain(|place| before.places.contains(place) || !is_left(place));
        self
    }
}

impl Place {
    fn continues_in(&self, next: &Place) -> bool {
        self.addresses.end == next.addresses.start
            && match (self.shows, next.shows) {
                (Shows::File(file, offset, perms), Shows::File(other, there, others)) => {
                    (file, perms) == (other, others) && offset + self.addresses.len() == there
                }
                (one, other) => one == other,
            }
    }
}

fn shown(vma: &ProcessVma) -> Shows {
    let perms = vma.perms;
    match vma.file {
        _ if !(perms.read || perms.write || perms.exec) => Shows::Reserved,
        Some(file) => Shows::File(file, vma.offset, perms),
        None => Shows::Memory(perms),
    }
}

/// What a mapping of a copy stands for.
fn originals(vma: &ProcessVma, name: &CopyName) -> Vec<Place> {
    let read_only = Perms {
        read: true,
        write: false,
        exec: false,
    };
    let in_copy = Span::new(vma.offset, vma.offset + vma.addresses.len());
    let originals = name.originals(in_copy).into_iter();
    let place = |(span, original): (Span, Original)| {
        let start = vma.addresses.start + (span.start - vma.offset);
        let shows = match original {
            Original::Text(offset) => Shows::File(name.file, offset, vma.perms),
            Original::Data(offset) => Shows::File(name.file, offset, read_only),
            Original::Beside(hugetext_leaf::Pad::Hole) => Shows::Reserved,
            Original::Beside(hugetext_leaf::Pad::Free) => return None,
        };
        Some(Place {
            addresses: Span::new(start, start + span.len()),
            shows,
        })
    };
    originals.filter_map(place).collect()
}

/// What differs between two looks at a process that must not. Pure.
pub(crate) fn differences(before: &Look, now: &Look, conduct: Conduct) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, was: &dyn std::fmt::Debug, is: &dyn std::fmt::Debug| {
        found.push(format!("{what} was {was:?} and is {is:?}"));
    };
    for (tid, thread) in &now.threads {
        if thread.tracer != "0" {
            differs(&format!("the tracer of thread {tid}"), &"0", &thread.tracer);
        }
        if thread.state == 't' {
            differs(
                &format!("the state of thread {tid}"),
                &"running",
                &thread.state,
            );
        }
        // Everything but SIGKILL and SIGSTOP, as promotion blocks it for a moment, and a C library during fork(2).
        if thread.state != 'T' && thread.blocked == "fffffffffffbfeff" {
            differs(
                &format!("the blocked signals of thread {tid}"),
                &"some",
                &"all",
            );
        }
    }
    if conduct == Conduct::Refuses {
        return found;
    }
    // A shell catches SIGINT while it waits for a child, and goes on catching it while SIGSTOP holds it there.
    let may_catch_others = conduct == Conduct::Changes && now.is_stopped();
    if before.handlers != now.handlers && !may_catch_others {
        differs(
            "ignored and caught signals",
            &before.handlers,
            &now.handlers,
        );
    }
    let is_fixed = conduct != Conduct::Changes;
    if is_fixed {
        for (tid, was) in &before.threads {
            let Some(is) = now.threads.get(tid) else {
                differs(&format!("thread {tid}"), &"there", &"gone");
                continue;
            };
            // SIGSTOP ends the waiting of sigwaitinfo(2), which unblocks signals while it waits, and holds a thread
            // in fork(3), which blocks them.
            let by_stop = conduct != Conduct::Fixed && is.state == 'T';
            if was.blocked != is.blocked && !by_stop {
                differs(
                    &format!("the blocked signals of thread {tid}"),
                    &was.blocked,
                    &is.blocked,
                );
            }
            // A thread that SIGSTOP has stopped takes no signal, and makes its call again afterwards.
            if is.state == 'T' {
                continue;
            }
            if was.pending != is.pending {
                differs(
                    &format!("the pending signals of thread {tid}"),
                    &was.pending,
                    &is.pending,
                );
            }
            if conduct == Conduct::Waits && !is_same_call(&was.call, &is.call) {
                differs(&format!("the call of thread {tid}"), &was.call, &is.call);
            }
        }
    }
    let is_ours = |link: &str| {
        link.contains("hugetext") && link.contains("memfd:")
            || link.contains("/promoted/")
            || link.starts_with("socket:")
    };
    for (number, link) in &now.files {
        let known = before.files.get(number) == Some(link);
        if !known && (is_fixed || is_ours(link)) {
            differs(&format!("file {number}"), &before.files.get(number), link);
        }
    }
    for number in before
        .files
        .keys()
        .filter(|number| is_fixed && !now.files.contains_key(*number))
    {
        differs(
            &format!("file {number}"),
            &before.files.get(number),
            &"closed",
        );
    }
    if now.mappings > before.mappings + most_new_mappings(conduct) {
        differs("the number of mappings", &before.mappings, &now.mappings);
    }
    let (was, is) = if is_fixed {
        (before.places.iter().collect(), now.places.iter().collect())
    } else {
        (before.of_text(), now.of_text())
    };
    for place in was.iter().filter(|place| !is.contains(place)) {
        let there = is
            .iter()
            .filter(|other| !other.addresses.intersect(&place.addresses).is_empty());
        differs("a mapping", place, &there.collect::<Vec<_>>());
    }
    for place in is
        .iter()
        .filter(|_| is_fixed)
        .filter(|place| !was.contains(place))
    {
        differs("a mapping", &"as before", place);
    }
    found
}

/// A promoted mapping is cut where text, its data and the copy begin and end.
fn most_new_mappings(conduct: Conduct) -> usize {
    match conduct {
        Conduct::Waits | Conduct::WaitsBesideChildren | Conduct::Fixed => 12,
        // Heaps and stacks of their own come and go, and the pages of a JIT.
        Conduct::Changes | Conduct::Refuses => 2000,
    }
}

/// A call with a time limit that was interrupted goes on as restart_syscall(2), whose number and arguments
/// the kernel then shows.
fn is_same_call(before: &str, now: &str) -> bool {
    /// restart_syscall of x86-64 and arm64.
    const RESTART: [&str; 2] = ["219", "128"];
    let end = |call: &str| {
        let words: Vec<String> = call.split(' ').rev().take(2).map(str::to_owned).collect();
        words
    };
    let is_restart = |call: &str| RESTART.contains(&call.split(' ').next().unwrap_or_default());
    before == now || ((is_restart(before) || is_restart(now)) && end(before) == end(now))
}

impl Content {
    pub(crate) fn of(pid: Pid) -> io::Result<Content> {
        // Not by mapping: a copy may also lie beside what it stands for.
        let look = Look {
            places: places(&mappings(pid)?),
            ..Look::default()
        };
        let is_constant = |place: &Place| matches!(place.shows, Shows::File(_, _, perms) if perms.read && !perms.write);
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        let read = |place: &Place| {
            let Span { start, .. } = place.addresses;
            let mut bytes = vec![0; place.addresses.len() as usize];
            // Pages behind the end of the file cannot be read.
            let mut len = 0;
            while let Ok(got @ 1..) = memory.read_at(&mut bytes[len..], start + len as u64) {
                len += got;
            }
            bytes.truncate(len);
            (place.addresses, bytes)
        };
        let constant = look.of_text().into_iter();
        Ok(Content(
            constant
                .filter(|place| is_constant(place))
                .map(read)
                .collect(),
        ))
    }

    /// The first address at which the process no longer has these bytes.
    pub(crate) fn first_difference(&self, pid: Pid) -> io::Result<Option<u64>> {
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        for (addresses, bytes) in &self.0 {
            let mut now = vec![0; bytes.len()];
            if memory.read_exact_at(&mut now, addresses.start).is_err() {
                return Ok(Some(addresses.start));
            }
            if now != *bytes {
                let same = now.iter().zip(bytes).take_while(|(now, then)| now == then);
                return Ok(Some(addresses.start + same.count() as u64));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_call_is_the_same_call() {
        assert!(is_same_call("7 0x1 0x2 0xf 0xa", "219 0x0 0x0 0xf 0xa"));
        assert!(!is_same_call("7 0x1 0x2 0xf 0xa", "219 0x0 0x0 0xf 0xb"));
        assert!(!is_same_call("7 0x1 0x2 0xf 0xa", "7 0x1 0x3 0xf 0xa"));
    }

    #[test]
    fn other_handlers_count_unless_the_program_was_stopped_while_it_had_them() {
        let look = |state, handlers: &str| {
            let thread = ThreadLook {
                state,
                tracer: "0".to_owned(),
                blocked: "0".to_owned(),
                pending: "0".to_owned(),
                call: String::new(),
            };
            Look {
                threads: [(Tid::own(), thread)].into(),
                handlers: (String::new(), handlers.to_owned()),
                ..Look::default()
            }
        };
        let found = |state, conduct| differences(&look('S', "0"), &look(state, "2"), conduct).len();
        assert_eq!(found('S', Conduct::Changes), 1);
        assert_eq!(found('T', Conduct::Changes), 0);
        assert_eq!(found('T', Conduct::Fixed), 1);
    }

    #[test]
    fn other_blocked_signals_count_unless_sigstop_ended_the_call_that_had_them() {
        let look = |state, blocked: &str| {
            let thread = ThreadLook {
                state,
                tracer: "0".to_owned(),
                blocked: blocked.to_owned(),
                pending: "0".to_owned(),
                call: String::new(),
            };
            Look {
                threads: [(Tid::own(), thread)].into(),
                ..Look::default()
            }
        };
        let found =
            |state, conduct| differences(&look('S', "0"), &look(state, "200"), conduct).len();
        assert_eq!(found('S', Conduct::Waits), 1);
        assert_eq!(found('T', Conduct::Waits), 0);
        assert_eq!(found('T', Conduct::Fixed), 1);
    }

    #[test]
    fn what_promotion_may_leave_behind_is_named() {
        let look = |places: Vec<Place>, link: &str| Look {
            places,
            files: [("3".to_owned(), link.to_owned())].into(),
            ..Look::default()
        };
        let perms = Perms {
            read: true,
            write: true,
            exec: false,
        };
        let page = Place {
            addresses: Span::new(0x1000, 0x2000),
            shows: Shows::Memory(perms),
        };
        let before = look(Vec::new(), "/dev/null");
        assert!(differences(&before, &look(Vec::new(), "/dev/null"), Conduct::Fixed).is_empty());
        assert_eq!(
            differences(&before, &look(vec![page], "/dev/null"), Conduct::Fixed).len(),
            1
        );
        let leaked = look(Vec::new(), "/memfd:hugetext.x (deleted)");
        assert_eq!(differences(&before, &leaked, Conduct::Changes).len(), 1);
        assert!(differences(&before, &leaked, Conduct::Refuses).is_empty());
    }
}
