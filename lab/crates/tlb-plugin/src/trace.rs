//! Records the pages that each thread executes, and the file of each page.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arch;
use crate::qemu::Shape;
use crate::wire::{ANONYMOUS, FrameKind, MAX_PAYLOAD, PAGE_SHIFT, header};

/// Maximum number of threads alive at a time; QEMU reuses the numbers of ended ones.
const THREADS: usize = 4096;
/// Pages that a thread collects before it writes.
const RUN: usize = MAX_PAYLOAD / 4;
/// Bits in a [`Block`]'s word: of a page number, of an instruction count (QEMU ends a block after
/// 512), and of [`Block::repeat`].
const PAGE_BITS: u32 = 24;
const COUNT_BITS: u32 = 10;
const REPEAT_BITS: u32 = 6;

/// The effect of executing a translation block: its instructions, and its pages in order.
#[derive(Clone, Copy)]
pub struct Block {
    instructions: u64,
    /// Nonzero if the block ends with a repeated string instruction, with one value for each
    /// address of that instruction in 32 bytes. QEMU jumps back to the instruction for each turn,
    /// so a block of this one instruction after a block that ended with it is another turn. The
    /// processor executes, and counts, one instruction.
    repeat: u32,
    first: u32,
    second: u32,
}

const SECOND: u32 = FIRST + PAGE_BITS;
const FIRST: u32 = REPEAT + REPEAT_BITS;
const REPEAT: u32 = COUNT_BITS;

impl Block {
    /// The block packed into 64 bits.
    pub fn word(self) -> u64 {
        u64::from(self.second) << SECOND
            | u64::from(self.first) << FIRST
            | u64::from(self.repeat) << REPEAT
            | self.instructions
    }

    /// The inverse of [`Block::word`].
    pub fn from_word(word: u64) -> Block {
        Block {
            instructions: word & ((1 << COUNT_BITS) - 1),
            repeat: (word >> REPEAT) as u32 & ((1 << REPEAT_BITS) - 1),
            first: (word >> FIRST) as u32 & ((1 << PAGE_BITS) - 1),
            second: (word >> SECOND) as u32,
        }
    }
}

/// The value of [`Block::repeat`] for a block that ends with these bytes, the last of them at
/// `last`.
fn repeat(ending: &[u8], last: u64) -> u32 {
    if is_repeated_string(ending) {
        1 | (last as u32 & 31) << 1
    } else {
        0
    }
}

/// Whether an x86-64 instruction is INS, OUTS, MOVS, LODS, STOS, CMPS or SCAS with a REP prefix.
fn is_repeated_string(instruction: &[u8]) -> bool {
    let legacy = |byte: &&u8| {
        let segments = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65];
        segments.contains(*byte) || matches!(**byte, 0x66 | 0x67 | 0xf2 | 0xf3)
    };
    let prefixes = instruction.iter().take_while(legacy).count();
    let (prefixes, rest) = instruction.split_at(prefixes);
    let opcode = match rest {
        [0x40..=0x4f, opcode, ..] | [opcode, ..] => *opcode,
        [] => return false,
    };
    prefixes.iter().any(|byte| matches!(byte, 0xf2 | 0xf3))
        && matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf)
}

/// One thread's part. Only that thread accesses it (see [`Recorder::executed`]).
struct Thread {
    number: u32,
    instructions: u64,
    last: u32,
    repeat: u32,
    run: Vec<u32>,
}

/// The state that all threads share, under a lock. It is accessed only when a block is translated
/// or a run is full.
struct Shared {
    pipe: Option<File>,
    /// Device and inode of the pipe: the guest shares the table of files and may have closed it.
    identity: (u64, u64),
    /// The recording process. A forked child must not write.
    process: u32,
    maps: Vec<Mapping>,
    objects: HashMap<String, u32>,
    pages: HashMap<(u32, u64), u32>,
    threads: u32,
}

/// A line of /proc/self/maps: addresses in this process, and the file mapped there.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: Option<String>,
}

/// The only recorder of the process.
pub struct Recorder {
    shared: Mutex<Shared>,
    threads: Box<[AtomicPtr<UnsafeCell<Thread>>]>,
    /// Set when the guest's mappings may have changed.
    stale: AtomicBool,
    /// Whether the guest has repeated string instructions.
    repeats: bool,
    /// Numbers of the guest's system calls that change mappings.
    mapping_calls: [i64; 4],
}

impl Recorder {
    /// A recorder that writes to the pipe `fd`, for a guest of architecture `target`.
    pub fn new(fd: i32, target: &str) -> Option<Recorder> {
        // SAFETY: the program that starts QEMU opened the descriptor for the plugin alone.
        let inherited = unsafe { File::from_raw_fd(fd) };
        // A duplicate is closed on exec, so that programs that the guest executes do not hold the
        // pipe.
        let pipe = inherited.try_clone().ok()?;
        let metadata = pipe.metadata().ok()?;
        let shared = Shared {
            pipe: Some(pipe),
            identity: (metadata.dev(), metadata.ino()),
            process: std::process::id(),
            maps: Vec::new(),
            objects: HashMap::new(),
            pages: HashMap::new(),
            threads: 0,
        };
        Some(Recorder {
            shared: Mutex::new(shared),
            threads: (0..THREADS).map(|_| AtomicPtr::default()).collect(),
            stale: AtomicBool::new(true),
            repeats: arch::repeats(target),
            mapping_calls: arch::mapping_calls(target),
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The effect of executing a block of this shape.
    pub fn block(&self, shape: &Shape) -> Block {
        let mut shared = self.shared();
        if self.stale.swap(false, Ordering::Relaxed) {
            shared.maps = mappings();
        }
        let first = shared.page(shape.start, shape.guest_base);
        let second = if shape.start >> PAGE_SHIFT == shape.last >> PAGE_SHIFT {
            first
        } else {
            shared.page(shape.last, shape.guest_base)
        };
        Block {
            instructions: (shape.instructions as u64).min((1 << COUNT_BITS) - 1),
            repeat: if self.repeats {
                repeat(&shape.ending, shape.last)
            } else {
                0
            },
            first,
            second,
        }
    }

    /// Counts a block.
    ///
    /// # Safety
    /// Called on the thread that emulates `vcpu`; a number belongs to one thread at a time.
    #[inline]
    pub unsafe fn executed(&self, vcpu: usize, block: Block) {
        let Some(slot) = self.threads.get(vcpu) else {
            return;
        };
        let mut cell = slot.load(Ordering::Relaxed);
        if cell.is_null() {
            cell = self.start_thread(slot);
        }
        // SAFETY: a pointer that is not null came from Box::into_raw and is freed by its own thread
        // only (thread_ended), or never; no other thread reads it while this thread runs.
        let thread = unsafe { &mut *(*cell).get() };
        let turn = block.repeat != 0 && block.instructions == 1;
        if turn && block.repeat == thread.repeat && block.second == thread.last {
            return;
        }
        thread.repeat = block.repeat;
        thread.instructions += block.instructions;
        if block.first != thread.last {
            self.push(thread, block.first);
        }
        if block.second != block.first {
            self.push(thread, block.second);
        }
    }

    #[inline]
    fn push(&self, thread: &mut Thread, page: u32) {
        thread.last = page;
        thread.run.push(page);
        if thread.run.len() == RUN {
            self.flush(thread);
        }
    }

    #[cold]
    fn start_thread(&self, slot: &AtomicPtr<UnsafeCell<Thread>>) -> *mut UnsafeCell<Thread> {
        let mut shared = self.shared();
        let number = shared.threads;
        shared.threads += 1;
        let thread = Thread {
            number,
            instructions: 0,
            last: u32::MAX,
            repeat: 0,
            run: Vec::with_capacity(RUN),
        };
        let cell = Box::into_raw(Box::new(UnsafeCell::new(thread)));
        slot.store(cell, Ordering::Relaxed);
        cell
    }

    #[cold]
    fn flush(&self, thread: &mut Thread) {
        let payload: Vec<u8> = thread
            .run
            .iter()
            .flat_map(|page| page.to_le_bytes())
            .collect();
        self.shared().write(FrameKind::Run, thread.number, &payload);
        thread.run.clear();
    }

    /// After a system call of the guest.
    pub fn syscall_returned(&self, number: i64) {
        if self.mapping_calls.contains(&number) {
            self.stale.store(true, Ordering::Relaxed);
        }
    }

    /// Writes the remaining pages of a thread, and forgets the thread.
    ///
    /// # Safety
    /// As [`Recorder::executed`], or no other thread runs.
    pub unsafe fn thread_ended(&self, vcpu: usize) {
        let Some(slot) = self.threads.get(vcpu) else {
            return;
        };
        let cell = slot.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if cell.is_null() {
            return;
        }
        // SAFETY: the pointer came from Box::into_raw, and no slot holds it any more.
        let mut thread = unsafe { Box::from_raw(cell) }.into_inner();
        self.flush(&mut thread);
        let instructions = thread.instructions.to_le_bytes();
        self.shared()
            .write(FrameKind::Thread, thread.number, &instructions);
    }

    /// Writes the remaining pages of every thread, and the last frame.
    ///
    /// # Safety
    /// No other thread runs.
    pub unsafe fn program_ended(&self) {
        for vcpu in 0..THREADS {
            // SAFETY: as this function's own contract says.
            unsafe { self.thread_ended(vcpu) };
        }
        let mut shared = self.shared();
        shared.write(FrameKind::End, 0, &[]);
        shared.pipe = None;
    }
}

impl Shared {
    /// The number of the page that holds the guest's `address`; a new one is announced.
    fn page(&mut self, address: u64, guest_base: u64) -> u32 {
        let page = address >> PAGE_SHIFT << PAGE_SHIFT;
        let (object, offset) = self.file(page.wrapping_add(guest_base), page);
        if let Some(number) = self.pages.get(&(object, offset)) {
            return *number;
        }
        // Beyond 2^24 pages (64 GiB of code) all share the last number.
        let number = (self.pages.len() as u32).min((1 << PAGE_BITS) - 1);
        self.pages.insert((object, offset), number);
        let mut payload = object.to_le_bytes().to_vec();
        payload.extend_from_slice(&offset.to_le_bytes());
        self.write(FrameKind::Page, number, &payload);
        number
    }

    /// The file at an address of this process, with the offset there; or the guest's address.
    fn file(&mut self, address: u64, guest: u64) -> (u32, u64) {
        let below = self
            .maps
            .partition_point(|mapping| mapping.start <= address);
        let mapping = below.checked_sub(1).and_then(|index| self.maps.get(index));
        let Some(mapping) = mapping.filter(|mapping| address < mapping.end) else {
            return (ANONYMOUS, guest);
        };
        let offset = mapping.offset + (address - mapping.start);
        let Some(path) = mapping.path.clone() else {
            return (ANONYMOUS, guest);
        };
        let next = self.objects.len() as u32;
        if let Some(object) = self.objects.get(&path) {
            return (*object, offset);
        }
        self.write(FrameKind::Object, next, path.as_bytes());
        self.objects.insert(path, next);
        (next, offset)
    }

    /// Writes a frame. Recording stops for good when the pipe is gone or its descriptor is another
    /// file.
    fn write(&mut self, kind: FrameKind, id: u32, payload: &[u8]) {
        if self.process != std::process::id() {
            return;
        }
        let Some(pipe) = &mut self.pipe else { return };
        let mut frame = header(kind, id, payload.len()).to_vec();
        frame.extend_from_slice(payload);
        let same = pipe
            .metadata()
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if !same || pipe.write_all(&frame).is_err() {
            // It is not dropped, because that would close a descriptor that may be the guest's.
            std::mem::forget(self.pipe.take());
        }
    }
}

fn mappings() -> Vec<Mapping> {
    let text = fs::read("/proc/self/maps").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(mapping).collect()
}

/// `start-end perms offset dev inode path`, proc_pid_maps(5).
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let offset = hex(fields.nth(1)?)?;
    let path = fields.nth(2).map(str::trim_start);
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        path: path.filter(|path| path.starts_with('/')).map(str::to_owned),
    })
}
