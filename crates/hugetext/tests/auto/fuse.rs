//! A filesystem whose server hangs when it is told to.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use hugetext_host::{Namespace, Tid};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::OFlags;

/// A FUSE filesystem (include/uapi/linux/fuse.h) of one file, "program". It answers until it is told to hang.
pub(crate) struct Fuse {
    at: PathBuf,
    hangs: Arc<AtomicBool>,
    unanswered: Arc<Mutex<Vec<Tid>>>,
}

const ROOT: u64 = 1;
const PROGRAM: u64 = 2;
/// Bytes of an answer to INIT of version 7.23.
const INIT_BYTES: usize = 64;
const LARGEST_WRITE: u32 = 4096;
/// No entry and no attributes may be cached, so that each look-up asks.
const UNCACHED: [u8; 16] = [0; 16];

impl Fuse {
    /// Mounts `content` as the file "program" in a mount namespace of this thread. `None`, with the reason printed,
    /// where that is not possible.
    pub(crate) fn mount(at: &Path, content: Vec<u8>) -> Option<Fuse> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device
            .map_err(|error| println!("skipped: /dev/fuse: {error}"))
            .ok()?;
        let options = format!(
            "fd={},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions",
            device.as_raw_fd()
        );
        Namespace::Mount
            .enter()
            .map_err(|error| println!("skipped: no mount namespace: {error}"))
            .ok()?;
        let (source, kind) = (Some("hugetext-test"), Some("fuse"));
        let mounted = mount(source, at, kind, MsFlags::MS_NODEV, Some(options.as_str()));
        mounted
            .map_err(|error| println!("skipped: no FUSE mount: {error}"))
            .ok()?;
        let hangs = Arc::new(AtomicBool::new(false));
        let unanswered = Arc::default();
        let (told, waiting) = (Arc::clone(&hangs), Arc::clone(&unanswered));
        thread::spawn(move || serve(device, &content, &told, &waiting));
        Some(Fuse {
            at: at.to_owned(),
            hangs,
            unanswered,
        })
    }

    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// Whether a thread of a process waits for an answer that never comes.
    pub(crate) fn keeps_waiting(&self, process: &Child) -> bool {
        let unanswered = self.unanswered.lock().unwrap();
        let threads = format!("/proc/{}/task", process.id());
        let is_thread = |thread: &Tid| Path::new(&format!("{threads}/{thread}")).exists();
        unanswered.iter().any(is_thread)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // The kernel ends the connection, and with it all that waits.
        umount2(&self.at, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH).unwrap();
    }
}

/// Answers requests until the filesystem is unmounted. Those that come after it was told to hang are read and never
/// answered, as by a server that has stopped; `unanswered` takes the threads that made them.
fn serve(mut device: File, content: &[u8], hangs: &AtomicBool, unanswered: &Mutex<Vec<Tid>>) {
    let mut buffer = vec![0; 1 << 17];
    while let Ok(len) = device.read(&mut buffer) {
        let request = &buffer[..len];
        if hangs.load(Ordering::SeqCst) {
            let thread = i32::from_ne_bytes(request[32..36].try_into().unwrap());
            // The kernel itself has no number.
            unanswered.lock().unwrap().extend(Tid::from_raw(thread));
            continue;
        }
        let number = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (opcode, unique, node) = (number(0) >> 32, number(8), number(16));
        let Some(answer) = answer(opcode, node, &request[40..], content) else {
            continue;
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let mut reply = u32::try_from(16 + body.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // An interrupted request takes no answer.
        let _ = device.write(&reply);
    }
}

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// The answer to a request, or the number of an error; `None` for requests without an answer.
fn answer(opcode: u64, node: u64, body: &[u8], content: &[u8]) -> Option<Result<Vec<u8>, i32>> {
    const LOOKUP: u64 = 1;
    const FORGET: u64 = 2;
    const GETATTR: u64 = 3;
    const OPEN: u64 = 14;
    const READ: u64 = 15;
    const RELEASE: u64 = 18;
    const INIT: u64 = 26;
    const INTERRUPT: u64 = 36;
    const BATCH_FORGET: u64 = 42;
    Some(match opcode {
        FORGET | INTERRUPT | BATCH_FORGET => return None,
        INIT => {
            let mut answer = vec![0; INIT_BYTES];
            answer[..4].copy_from_slice(&7u32.to_ne_bytes());
            answer[4..8].copy_from_slice(&23u32.to_ne_bytes());
            answer[8..12].copy_from_slice(&(1u32 << 17).to_ne_bytes());
            answer[20..24].copy_from_slice(&LARGEST_WRITE.to_ne_bytes());
            Ok(answer)
        }
        LOOKUP if body.strip_suffix(&[0]) == Some(b"program") => {
            // The node, its generation, and how long the entry and its attributes may be cached.
            let mut entry = PROGRAM.to_ne_bytes().to_vec();
            entry.extend([0; 8]);
            entry.extend(UNCACHED);
            entry.extend([0; 8]);
            entry.extend(attributes(PROGRAM, content));
            Ok(entry)
        }
        LOOKUP => Err(ENOENT),
        GETATTR => {
            let mut answer = UNCACHED.to_vec();
            answer.extend(attributes(node, content));
            Ok(answer)
        }
        OPEN => {
            // Who asks for O_DIRECT gets a file that bypasses the page cache, and drops from it what is there.
            const FOPEN_DIRECT_IO: u8 = 1;
            let flags = OFlags::from_bits_retain(u32::from_ne_bytes(body[..4].try_into().unwrap()));
            let mut answer = vec![0; 16];
            if flags.contains(OFlags::DIRECT) {
                answer[8] = FOPEN_DIRECT_IO;
            }
            Ok(answer)
        }
        READ => {
            let word = |at: usize| u64::from_ne_bytes(body[at..at + 8].try_into().unwrap());
            let from = usize::try_from(word(8)).unwrap().min(content.len());
            let len = usize::try_from(word(16) & 0xffff_ffff).unwrap();
            Ok(content[from..].iter().take(len).copied().collect())
        }
        RELEASE => Ok(Vec::new()),
        _ => Err(ENOSYS),
    })
}

/// The attributes of a node (struct fuse_attr).
fn attributes(node: u64, content: &[u8]) -> Vec<u8> {
    let (mode, size) = match node {
        ROOT => (0o40_755u32, 0),
        _ => (0o100_755, content.len() as u64),
    };
    let mut answer = Vec::new();
    for word in [node, size, size.div_ceil(512), 1, 1, 1] {
        answer.extend(word.to_ne_bytes());
    }
    // Three parts of times, the mode, links, owner, device, block size, and flags.
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        answer.extend(u32::to_ne_bytes(word));
    }
    answer
}
