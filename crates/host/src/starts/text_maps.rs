//! The records of mappings, forks and exits that the kernel makes for profilers
//! (perf_event_open(2), `mmap2` and `task`).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use hugetext_leaf::FileId;
use perf_event::events::Software;
use perf_event::{Builder, Sampler};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::sideband::{MappedFile, Sideband};
use crate::processes::Pid;

/// Bytes of records that wait for each processor: about 700 starts of programs with four libraries.
const BUFFER: usize = 512 << 10;
/// From so many bytes on, waiting ends.
const WAKE: usize = BUFFER / 4;

/// perf_event_header.type (linux/perf_event.h).
const LOST: u32 = 2;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// perf_event_header.misc: the record of a mapping holds a build id and no inode.
const BUILD_ID: u16 = 1 << 14;

/// The records of all processors since this value was made.
pub struct TextMaps(Vec<Sampler>);

impl std::fmt::Debug for TextMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextMaps of {} processors", self.0.len())
    }
}

impl TextMaps {
    /// An error if they are not permitted or not supported, or if no processor gives any.
    pub fn new() -> io::Result<TextMaps> {
        let mut samplers = Vec::new();
        let mut problem = io::Error::from(io::ErrorKind::Unsupported);
        for processor in processors()? {
            match of_processor(processor) {
                Ok(sampler) => samplers.push(sampler),
                // It has gone offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => problem = error,
                Err(error) => return Err(error),
            }
        }
        if samplers.is_empty() {
            Err(problem)
        } else {
            Ok(TextMaps(samplers))
        }
    }

    /// Waits until many records are there, `also` can be read, or `timeout` has passed, and tells `seen`
    /// the records. Those of one processor come in order.
    pub fn wait(
        &mut self,
        timeout: Duration,
        also: impl AsFd,
        mut seen: impl FnMut(Sideband),
    ) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let own = self.0.iter().map(|sampler| {
            // SAFETY: the descriptor belongs to the sampler, which outlives the borrow: both end with
            // this function, and the sampler is changed only after the last use of the borrow.
            unsafe { BorrowedFd::borrow_raw(sampler.as_raw_fd()) }
        });
        let mut ready: Vec<PollFd<'_>> = own
            .map(|own| PollFd::from_borrowed_fd(own, PollFlags::IN))
            .chain([PollFd::new(&also, PollFlags::IN)])
            .collect();
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(ready);
        for sampler in &mut self.0 {
            while let Some(record) = sampler.next_record() {
                let bytes = record.to_contiguous();
                if let Some(told) = parse(record.ty(), record.misc(), &bytes) {
                    seen(told);
                }
            }
        }
        Ok(())
    }
}

fn of_processor(processor: usize) -> io::Result<Sampler> {
    let mut counter = Builder::new(Software::DUMMY)
        .any_pid()
        .one_cpu(processor)
        // Mappings of text, not of data. What is counted does not matter: nothing is.
        .mmap(true)
        .mmap2(true)
        .task(true)
        .exclude_kernel(true)
        .wakeup_watermark(WAKE)
        .build()?;
    counter.enable()?;
    counter.sampled(BUFFER)
}

/// The numbers of the processors that are online.
fn processors() -> io::Result<Vec<usize>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut processors = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().map_err(|_| invalid())?;
        let last: usize = last.parse().map_err(|_| invalid())?;
        processors.extend(first..=last);
    }
    Ok(processors)
}

/// What a record tells; `None` for records of threads, of memory without a file, and of other kinds.
fn parse(kind: u32, misc: u16, bytes: &[u8]) -> Option<Sideband> {
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(word.try_into().ok()?))
    };
    let long = |at: usize| -> Option<u64> {
        let long = bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(long.try_into().ok()?))
    };
    let id = |at: usize| word(at).map(u32::cast_signed);
    let pid = |at: usize| Pid::from_raw(id(at)?);
    match kind {
        // { id, lost }
        LOST => Some(Sideband::Lost(long(8)?)),
        // { pid, ppid, tid, ptid, time }: a thread has the pid of its process.
        FORK if id(0)? != id(4)? => Some(Sideband::Fork {
            parent: pid(4)?,
            child: pid(0)?,
        }),
        EXIT if id(0)? == id(8)? => Some(Sideband::Exit { pid: pid(0)? }),
        // { pid, tid, addr, len, pgoff, maj, min, ino, ino_generation, prot, flags, filename }
        MMAP2 if misc & BUILD_ID == 0 => {
            let name = bytes.get(64..)?.split(|byte| *byte == 0).next()?;
            let inode = long(40)?;
            if inode == 0 || !name.starts_with(b"/") {
                return None;
            }
            Some(Sideband::Text {
                pid: pid(0)?,
                file: MappedFile {
                    id: FileId {
                        dev: rustix::fs::makedev(word(32)?, word(36)?),
                        ino: inode,
                    },
                    generation: long(48)?,
                },
                path: PathBuf::from(OsStr::from_bytes(name)),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn processes_are_told_and_threads_are_not() {
        let fork = Sideband::Fork {
            parent: pid(10),
            child: pid(20),
        };
        assert_eq!(parse(FORK, 0, &words(&[20, 10, 20, 10, 0, 0])), Some(fork));
        assert_eq!(parse(FORK, 0, &words(&[10, 10, 21, 10, 0, 0])), None);
        let exit = Sideband::Exit { pid: pid(20) };
        assert_eq!(parse(EXIT, 0, &words(&[20, 10, 20, 10, 0, 0])), Some(exit));
        assert_eq!(parse(EXIT, 0, &words(&[20, 20, 21, 21, 0, 0])), None);
        let lost = parse(LOST, 0, &words(&[1, 0, 7, 0]));
        assert_eq!(lost, Some(Sideband::Lost(7)));
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let mut bytes = words(&[20, 20, 0, 0, 0, 0, 0, 0, 8, 1, 77, 0, 3, 0, 5, 2]);
        bytes.extend(b"/bin/cat\0\0\0\0\0\0\0\0");
        let told = parse(MMAP2, 0, &bytes);
        let file = MappedFile {
            id: FileId {
                dev: rustix::fs::makedev(8, 1),
                ino: 77,
            },
            generation: 3,
        };
        let path = PathBuf::from("/bin/cat");
        assert_eq!(
            told,
            Some(Sideband::Text {
                pid: pid(20),
                file,
                path
            })
        );
        assert_eq!(parse(MMAP2, BUILD_ID, &bytes), None);
        for len in 0..65 {
            assert_eq!(parse(MMAP2, 0, &bytes[..len]), None, "{len}");
        }
    }

    #[test]
    fn every_program_and_its_libraries_are_told() {
        let mut maps = match TextMaps::new() {
            Err(error) => return println!("skipped: no records for this user here: {error}"),
            Ok(maps) => maps,
        };
        let own = FileId::of(&fs::metadata("/bin/true").unwrap());
        let (mut starts, mut libraries, mut lost) = (0, 0, 0);
        let never = fs::File::open("/proc/self/mounts").unwrap();
        for _ in 0..50 {
            let mut child = Command::new("/bin/true").spawn().unwrap();
            let own_pid = Pid::of_child(&child);
            child.wait().unwrap();
            // Each time, because records of the whole machine fill the buffers.
            maps.wait(Duration::ZERO, &never, |told| match told {
                Sideband::Text { pid, file, .. } if pid == own_pid => {
                    if file.id == own {
                        starts += 1;
                    } else {
                        libraries += 1;
                    }
                }
                Sideband::Lost(records) => lost += records,
                _ => {}
            })
            .unwrap();
        }
        if lost > 0 {
            return println!("skipped: other work of this machine filled the buffers");
        }
        assert_eq!(starts, 50);
        assert!(libraries >= 50, "{libraries}");
    }
}
