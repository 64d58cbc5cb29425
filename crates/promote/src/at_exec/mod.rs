//! Where the image of a program lies in memory, changed between its execve(2) and its first instruction.
//!
//! The kernel loads a PIE at a multiple of its largest p_align (fs/binfmt_elf.c, maximum_alignment()). Leaves need more than
//! the 4 KiB that most linkers write. A copy with another p_align gets an aligned address, but then the program headers in
//! memory are no longer those of the program's own file, by which debuggers find where a PIE lies. Here the program is
//! executed as it is, and then its image moves to an aligned address. Its text is mapped from its own file if that is congruent,
//! and otherwise from a copy, under the path of the copy. Program headers, /proc/PID/exe and the path of the program stay its
//! own.
//!
//! The process that is to become the program cannot do that by itself: its memory ends with execve(2). So a process that is
//! nobody's child here waits for the execution as a tracer, makes the calls, and ends.
//!
//! Invariant: before the last step, each step can be undone, and the program has executed no instruction. If the tracer is
//! killed in the middle, the program is killed too.

mod plan;
mod stack;
mod tracee;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use hugetext_host::{BackgroundError, Pid, Tid, in_background, may_tell_parts, parse_mappings};
use hugetext_leaf::{FileId, Leaf, Segment};

use crate::arch::{Architecture, Native};
use plan::{Arrangement, TextOfFile};
use tracee::Tracee;

/// A program, and the file from which it gets its text: itself or a copy.
#[derive(Debug)]
pub struct PlacedText {
    /// The file that is executed: a PIE.
    pub program: FileId,
    /// e_entry of it.
    pub entry: u64,
    /// Its PT_LOADs.
    pub segments: Vec<Segment>,
    /// The leaf that is to map its text. An address is congruent with the offset in the file with the text, modulo its size.
    pub leaf: Leaf,
    /// The file with its text.
    pub text: PathBuf,
    /// The inode of that file.
    pub text_id: FileId,
    /// The PT_LOADs of that file.
    pub text_segments: Vec<Segment>,
}

/// Why a process cannot have the image of the program that it becomes moved.
#[derive(Debug, thiserror::Error)]
pub enum NotPlaced {
    /// Nobody knows how a thread of this architecture makes a call.
    #[error("the image of a program is not moved on this architecture")]
    Architecture,
    /// The kernel does not let a process say where its parts lie.
    #[error("this kernel does not have prctl(PR_SET_MM_MAP): {0}")]
    Kernel(io::Error),
    /// No tracer waits for it.
    #[error("no tracer: {0}")]
    Tracer(BackgroundError),
}

/// From now on, if the process `waiting` executes the program, its image is moved. The caller is a child of it, and
/// the tracer lives until that execution, or until `waiting` ends.
pub fn place_at_exec(waiting: Pid, placed: PlacedText) -> Result<(), NotPlaced> {
    if !Native::SUPPORTED {
        return Err(NotPlaced::Architecture);
    }
    may_tell_parts().map_err(NotPlaced::Kernel)?;
    let tid = waiting.first_thread();
    in_background(move |ready| {
        let waiting = tracee::wait_for_exec(tid, ready)?;
        if waiting && runs(tid, &placed)? {
            // Whatever fails, the program runs as the kernel loaded it.
            let _ = rearrange(tid, &placed);
        }
        Ok(())
    })
    .map_err(NotPlaced::Tracer)
}

/// Whether the traced process executes that program.
fn runs(tid: Tid, placed: &PlacedText) -> io::Result<bool> {
    let exe = fs::metadata(format!("/proc/{tid}/exe"))?;
    Ok((exe.dev(), exe.ino()) == (placed.program.dev, placed.program.ino))
}

/// Moves the image of a program that is about to execute its first instruction.
fn rearrange(tid: Tid, placed: &PlacedText) -> io::Result<()> {
    let before = stack::Parts::read(tid)?;
    let bias = before.entry()?.wrapping_sub(placed.entry);
    let maps = parse_mappings(&fs::read(format!("/proc/{tid}/maps"))?)?;
    let vmas: Vec<plan::Vma> = maps.iter().map(plan::Vma::of).collect();
    let texts: Vec<TextOfFile> = TextOfFile::of(&placed.text_segments);
    let arrangement = Arrangement::decide(&vmas, &placed.segments, &texts, bias, placed.leaf);
    let arrangement = arrangement.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let tracee = Tracee::begin(tid, &before)?;
    let text = tracee.open(&placed.text)?;
    let opened = File::open(format!("/proc/{tid}/fd/{text}")).and_then(|file| file.metadata());
    let is_text = opened.is_ok_and(|opened| {
        (opened.dev(), opened.ino()) == (placed.text_id.dev, placed.text_id.ino)
    });
    let done = if is_text {
        tracee
            .carry_out(&arrangement, text)
            .and_then(|()| tell(&tracee, &before, &arrangement))
    } else {
        Err(io::ErrorKind::NotFound.into())
    };
    match done {
        Ok(()) => tracee.unmap(&arrangement),
        Err(_) => tracee.undo(&arrangement),
    }
    tracee.close(text);
    done
}

/// Tells the kernel and the program where its image lies now.
fn tell(tracee: &Tracee, before: &stack::Parts, arrangement: &Arrangement) -> io::Result<()> {
    let vector = tracee.auxiliary_vector(before)?;
    let after = before.moved(arrangement.by);
    tracee.set_parts(&after)?;
    tracee.set_auxiliary_vector(vector, &after)
}
