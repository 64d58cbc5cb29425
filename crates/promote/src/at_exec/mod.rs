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
//! Invariant: before the last step, each step can be undone, and the program has executed no instruction. A program whose
//! image could be brought neither there nor back is killed, and so is one whose tracer is killed in the middle.

mod plan;
mod stack;
mod tracee;

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use hugetext_host::{
    BackgroundError, FileState, Pid, Tid, in_background, may_tell_parts, parse_mappings,
    proc_is_own,
};
use hugetext_leaf::{FileId, Leaf, Segment};

use crate::arch::{Architecture, Native};
use crate::raw;
use plan::{Arrangement, PlacedSegment};
use stack::Parts;
use tracee::Tracee;

/// A program, and the file from which it gets its text: itself or a copy.
#[derive(Debug)]
pub struct PlacedText {
    /// The file that is executed, a PIE, in the state in which its headers were read. No other may be moved by them.
    pub program: FileState,
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
    /// What /proc says under a number is about another process.
    #[error("/proc is that of another PID namespace")]
    Proc,
    /// No tracer waits for it.
    #[error("no tracer: {0}")]
    Tracer(BackgroundError),
}

/// Why the image of a program stayed where the kernel had loaded it.
#[derive(Debug, thiserror::Error)]
pub enum NotMoved {
    /// Another file was executed, or the file has changed since its headers were read.
    #[error("the file has changed meanwhile")]
    Changed,
    /// The kernel does not tell of the program.
    #[error("what it maps cannot be read: {0}")]
    Unseen(io::Error),
    /// No aligned address below it is free, or its text is not mapped as its headers say.
    #[error("no aligned address is free for it")]
    NoPlace,
    /// The program could not be made to call the kernel.
    #[error("it makes no system call: {0}")]
    NoCalls(io::Error),
    /// The program may not read the file with its text.
    #[error("the file with its text cannot be opened: {0}")]
    NoText(io::Error),
    /// The program may not map that file, or has no memory to.
    #[error("its text cannot be mapped there: {0}")]
    NotMapped(io::Error),
    /// The kernel or the loader could not be told.
    #[error("the kernel is not told where it lies: {0}")]
    NotTold(io::Error),
    /// A half of its image lies here and a half there, so it is killed.
    #[error("it was killed, because its image could be moved neither there nor back: {0}")]
    Lost(io::Error),
}

/// What becomes of a program whose image stayed where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmoved {
    /// It runs all the same.
    Runs,
    /// It ends with this status, without an instruction of its own.
    Ends(u8),
}

/// Who waits for a program whose image is to be moved.
#[derive(Clone, Copy)]
pub struct Waiting<'w> {
    /// The process that becomes the program.
    pub process: Pid,
    /// The standard error of the process that waits for it.
    pub standard_error: Option<BorrowedFd<'w>>,
    /// Is told there if the image stays where it is, and decides what becomes of the program.
    pub unmoved: &'w dyn Fn(&NotMoved) -> Unmoved,
}

/// From now on, if the waiting process executes the program, its image is moved. The caller is a child of that process, and
/// the tracer lives until that execution, or until that process ends.
pub fn place_at_exec(waiting: Waiting<'_>, placed: PlacedText) -> Result<(), NotPlaced> {
    if !Native::SUPPORTED {
        return Err(NotPlaced::Architecture);
    }
    if !proc_is_own() {
        return Err(NotPlaced::Proc);
    }
    may_tell_parts().map_err(NotPlaced::Kernel)?;
    let tid = waiting.process.first_thread();
    in_background(waiting.standard_error, move |ready| {
        if tracee::wait_for_exec(tid, ready)? {
            attend(tid, &placed, waiting);
        }
        Ok(())
    })
    .map_err(NotPlaced::Tracer)
}

/// Makes the calls that [`place_at_exec`] has a program make, in this process. A filter of system calls may refuse one of
/// them, or kill this process for it.
pub fn rehearse_placing() -> io::Result<()> {
    may_tell_parts()?;
    raw::rehearse_placing()
}

/// Moves the image of a program that is about to execute its first instruction, and lets it begin.
fn attend(tid: Tid, placed: &PlacedText, waiting: Waiting<'_>) {
    let begun = Parts::read(tid).and_then(|before| Ok((Tracee::begin(tid, &before)?, before)));
    let (tracee, why) = match begun {
        Ok((tracee, before)) => match rearrange(&tracee, &before, placed) {
            Ok(()) => return,
            Err(why) => (Some(tracee), why),
        },
        Err(error) => (None, NotMoved::NoCalls(error)),
    };
    let outcome = (waiting.unmoved)(&why);
    match (tracee, outcome) {
        (Some(tracee), _) if matches!(why, NotMoved::Lost(_)) => tracee.kill(),
        (Some(tracee), Unmoved::Ends(status)) => tracee.end(status),
        (None, _) | (_, Unmoved::Runs) => {}
    }
}

/// Moves the image. After an error it lies where it was, but for [`NotMoved::Lost`].
fn rearrange(tracee: &Tracee, before: &Parts, placed: &PlacedText) -> Result<(), NotMoved> {
    let arrangement = arrange(tracee.tid(), before, placed)?;
    let text = tracee.open(&placed.text).map_err(NotMoved::NoText)?;
    let moved = carry_out(tracee, before, &arrangement, placed, text);
    if moved.is_ok() {
        tracee.unmap(&arrangement);
    }
    tracee.close(text);
    moved
}

/// Decides where the image goes, if the process executes that program.
fn arrange(tid: Tid, before: &Parts, placed: &PlacedText) -> Result<Arrangement, NotMoved> {
    let exe = fs::metadata(format!("/proc/{tid}/exe")).map_err(NotMoved::Unseen)?;
    if FileState::of(&exe) != placed.program {
        return Err(NotMoved::Changed);
    }
    let bias = before.entry().map_err(NotMoved::Unseen)?;
    let bias = bias.wrapping_sub(placed.entry);
    let maps = fs::read(format!("/proc/{tid}/maps")).and_then(|maps| parse_mappings(&maps));
    let maps = maps.map_err(NotMoved::Unseen)?;
    let vmas: Vec<plan::Vma> = maps.iter().map(plan::Vma::of).collect();
    let texts = PlacedSegment::of(&placed.segments, &placed.text_segments);
    Arrangement::decide(&vmas, &placed.segments, &texts, bias, placed.leaf).ok_or(NotMoved::NoPlace)
}

/// Brings the image to its place with the text of an open file, and tells of it. If that fails, all is undone.
fn carry_out(
    tracee: &Tracee,
    before: &Parts,
    arrangement: &Arrangement,
    placed: &PlacedText,
    text: u64,
) -> Result<(), NotMoved> {
    let opened = File::open(format!("/proc/{}/fd/{text}", tracee.tid()));
    let opened = opened.and_then(|file| Ok(FileId::of(&file.metadata()?)));
    if opened.map_err(NotMoved::NoText)? != placed.text_id {
        return Err(NotMoved::Changed);
    }
    let mut done = Vec::new();
    for step in &arrangement.steps {
        if let Err(error) = tracee.take(step, text) {
            undo(tracee, &done)?;
            return Err(NotMoved::NotMapped(error));
        }
        done.push(*step);
    }
    tell(tracee, before, arrangement).or_else(|why| {
        undo(tracee, &done)?;
        Err(why)
    })
}

/// Brings back what these steps have moved.
fn undo(tracee: &Tracee, done: &[plan::Step]) -> Result<(), NotMoved> {
    let mut undone = done.iter().rev().map(|step| tracee.take_back(step));
    undone.try_for_each(|step| step).map_err(NotMoved::Lost)
}

/// Tells the kernel and the program where its image lies now. After an error they know what they knew.
fn tell(tracee: &Tracee, before: &Parts, arrangement: &Arrangement) -> Result<(), NotMoved> {
    let vector = tracee.auxiliary_vector(before);
    let vector = vector.map_err(NotMoved::NotTold)?;
    let after = before.moved(arrangement.by);
    let told = tracee
        .set_auxiliary_vector(vector, &after)
        .and_then(|()| tracee.set_parts(&after));
    told.or_else(|error| {
        let back = tracee.set_auxiliary_vector(vector, before);
        back.map_err(NotMoved::Lost)?;
        Err(NotMoved::NotTold(error))
    })
}
