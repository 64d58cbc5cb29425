//! Promotes a process and maps it back: copy, swap, verify.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::rc::Rc;

use hugetext_host::FileState;
use hugetext_leaf::{CopyName, FileId, Leaf, ProcessVma, Run, Span};

use crate::content::{Content, Join, Step};
use crate::copies::Copies;
use crate::copy::{Blueprint, CopyError, HugeCopy, copy_name};
use crate::error::SwapError;
use crate::probes::breakpoints;
use crate::refusal::Refusal;
use crate::steps::{
    AT_ONCE, content_part, neighbours, parts, parts_of, promotion_steps, reversion_steps, text_part,
};
use crate::swap::{Change, MAX_FILES, Pause, read_padded, swap};
use crate::target::{Mappings, Target};

/// The changes made in a process.
#[derive(Debug, Default)]
pub struct SwapOutcome {
    /// Text whose mapping was replaced.
    pub done: Vec<Span>,
    /// Text that was left, with the reason.
    pub left: Vec<LeftText>,
    /// Bytes of copies made for this process.
    pub copied: u64,
    /// Bytes of copies that were made before for other processes and are shared.
    pub shared: u64,
    /// Bytes of read-only data that the copies make executable.
    pub data: u64,
    /// The cost of each stop; none if nothing had to change.
    pub pauses: Vec<Pause>,
    /// Addresses where a uprobe fires from now on: the file that is mapped now has one there.
    pub probed: Vec<u64>,
}

/// Text that was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftText {
    /// Its addresses.
    pub addresses: Span,
    /// Why.
    pub reason: String,
}

impl SwapOutcome {
    /// Leaves text as it is.
    fn leave(&mut self, addresses: Span, reason: impl ToString) {
        let reason = reason.to_string();
        self.left.push(LeftText { addresses, reason });
    }

    /// Adds to the changes. Parts of one mapping are reported as one.
    fn finish(&mut self, text: Span) {
        match self.done.last_mut() {
            Some(last) if last.end == text.start => last.end = text.end,
            _ => self.done.push(text),
        }
    }
}

/// One mapping, or part of one, to replace. Its steps name files by index in `files`.
struct Piece<'f> {
    /// What shows the program file: text, and the read-only data that shares its windows.
    content: Span,
    text: Span,
    files: [&'f File; 2],
    /// Whether the first file is the program that the text was compared with.
    compared: Option<(usize, FileState)>,
    steps: Vec<Step>,
    join: Option<Join>,
    /// Whether base pages of the program file may map it now; otherwise huge pages of a copy.
    small: bool,
    program: &'f File,
    offset: u64,
}

/// Maps copies over `runs`. Runs that cannot be copied are left. An error means that the process
/// could not be stopped or changed at all.
pub fn promote(
    target: &Target,
    mappings: &Mappings,
    runs: &[Run],
    leaf: Leaf,
    copies: &mut Copies,
) -> Result<SwapOutcome, SwapError> {
    let mut outcome = SwapOutcome::default();
    let mut prepared = Vec::new();
    for run in runs {
        let mut run = *run;
        let mut made = prepare(target, mappings, &run, leaf, copies);
        // A mapping may be longer than its file. A process that ends has no memory at all.
        let unread = matches!(&made, Err(CopyError::Read(error)) if error.kind() != io::ErrorKind::UnexpectedEof);
        if unread && !run.rest.is_empty() {
            run = run.without_rest();
            made = prepare(target, mappings, &run, leaf, copies);
        }
        match made {
            Ok((program, time, copy, is_new)) => {
                let bytes = if is_new {
                    &mut outcome.copied
                } else {
                    &mut outcome.shared
                };
                *bytes += run.mapped().len();
                prepared.push((run, program, time, copy));
            }
            Err(CopyError::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(target.memory_gone().into());
            }
            Err(error) => outcome.leave(run.text, error),
        }
    }
    outcome.data = prepared.iter().map(|(run, ..)| run.data()).sum();
    let mut pieces = Vec::new();
    for (run, program, time, copy) in &prepared {
        let place = (copy.id().map_err(SwapError::Trace)?, copy.first_window());
        pieces.extend(parts_of(run).map(|part| {
            let content = run.shown().intersect(&part);
            let (steps, join) = promotion_steps(mappings, run, part, place);
            Piece {
                content,
                text: run.text.intersect(&part),
                files: [program, copy.file()],
                compared: Some((0, *time)),
                steps,
                join,
                small: true,
                program,
                offset: run.offset_of(content.start),
            }
        }));
    }
    make(target, mappings, &pieces, &mut outcome)?;
    Ok(outcome)
}

/// Maps the files back over all promoted copies.
pub fn revert(target: &Target, mappings: &Mappings) -> Result<SwapOutcome, SwapError> {
    let mut outcome = SwapOutcome::default();
    let mut prepared = Vec::new();
    for (vma, name) in mappings.copies() {
        let path = mappings.at(vma.addresses.start).and_then(|(_, path)| path);
        let Some(id) = vma.file else { continue };
        let opened = open_program(target, mappings, name.file).and_then(|program| {
            let copy = copy_again(target, (vma, path), id, &name, &program)?;
            let time = state(&program)?;
            let (content, offset) = content_part(vma.addresses, vma.offset, &name);
            compare_unprobed(target, content, &program, offset)?;
            Ok((program, copy, time))
        });
        match opened {
            Ok((program, copy, time)) => prepared.push((vma, name, id, program, copy, time)),
            Err(error) => outcome.leave(vma.addresses, error),
        }
    }
    let mut pieces = Vec::new();
    for (vma, name, id, program, copy, time) in &prepared {
        pieces.extend(parts(vma.addresses).map(|part| {
            let in_copy = vma.offset + (part.start - vma.addresses.start);
            let now = Content::File {
                file: 1,
                id: *id,
                offset: in_copy,
                perms: vma.perms,
                bti: vma.bti,
            };
            let (content, offset) = content_part(part, in_copy, name);
            let mut steps = reversion_steps(part, now, name);
            steps.extend(neighbours(mappings, &steps, name.file));
            Piece {
                content,
                text: text_part(part, in_copy, name),
                files: [program, copy],
                compared: Some((0, *time)),
                steps,
                join: None,
                small: false,
                program,
                offset,
            }
        }));
    }
    make(target, mappings, &pieces, &mut outcome)?;
    Ok(outcome)
}

/// The copy that a process maps. If only root can open it, a memory file with the same content. The
/// process maps it again if mapping back fails halfway.
fn copy_again(
    target: &Target,
    (vma, path): (&ProcessVma, Option<&Path>),
    id: FileId,
    name: &CopyName,
    program: &File,
) -> io::Result<File> {
    match target.file_at(vma.addresses, path, id) {
        // A memory file has no path that opens.
        Err(error)
            if [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound]
                .contains(&error.kind()) =>
        {
            let part = Span::new(vma.offset, vma.offset + vma.addresses.len());
            let read = |at, bytes: &mut [u8]| read_padded(program, name.offset + at, bytes);
            HugeCopy::stand_in(name, part, read).map_err(io::Error::other)
        }
        opened => opened,
    }
}

fn open_program(target: &Target, mappings: &Mappings, file: FileId) -> io::Result<File> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "no mapping of its file is left");
    let (vma, path) = mappings.of_file(file).ok_or_else(gone)?;
    target.file_at(vma.addresses, path, file)
}

/// Opens the program, checks that the process executes exactly its content, and finds or makes the
/// copy. Returns whether it made the copy.
fn prepare(
    target: &Target,
    mappings: &Mappings,
    run: &Run,
    leaf: Leaf,
    copies: &mut Copies,
) -> Result<(File, FileState, Rc<HugeCopy>, bool), CopyError> {
    let program = open_program(target, mappings, run.file).map_err(CopyError::Read)?;
    let time = state(&program).map_err(CopyError::Read)?;
    compare_unprobed(target, run.shown(), &program, run.offset).map_err(CopyError::Read)?;
    let blueprint = Blueprint {
        name: copy_name(mappings, run, leaf),
        leaf,
        program: &program,
        target,
        content: run.content.start,
    };
    let (copy, is_new) = copies.get(&blueprint, time)?;
    Ok((program, time, copy, is_new))
}

fn state(file: &File) -> io::Result<FileState> {
    Ok(FileState::of(&file.metadata()?))
}

/// How much is read and compared at a time, in bytes.
const CHUNK: usize = 1 << 20;

/// Compares the process's memory with the file. The last page of a mapping shows zeroes beyond the
/// end of the file. Returns the addresses of uprobes, which the kernel writes into memory.
fn compare(target: &Target, text: Span, program: &File, offset: u64) -> io::Result<Vec<u64>> {
    let (mut memory, mut file) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut probed = Vec::new();
    for start in (text.start..text.end).step_by(CHUNK) {
        let len = (text.end - start).min(CHUNK as u64) as usize;
        let (Some(memory), Some(file)) = (memory.get_mut(..len), file.get_mut(..len)) else {
            break;
        };
        target.read(start, memory)?;
        read_padded(program, offset + (start - text.start), file)?;
        let found = breakpoints(memory, file).ok_or_else(differs)?;
        probed.extend(found.into_iter().map(|at| start + at as u64));
    }
    // A probe is in a page of the process's own.
    let changed = if probed.is_empty() {
        Vec::new()
    } else {
        target.changed_pages(text)?
    };
    let is_changed = |at: &u64| changed.iter().any(|page| page.contains(*at));
    if probed.iter().all(is_changed) {
        Ok(probed)
    } else {
        Err(differs())
    }
}

fn differs() -> io::Error {
    io::Error::other("memory differs from the file")
}

/// As [`compare`], for text that is to be replaced: a probe in it is a reason to leave it.
fn compare_unprobed(target: &Target, text: Span, program: &File, offset: u64) -> io::Result<()> {
    match compare(target, text, program, offset)?.first() {
        None => Ok(()),
        Some(at) => Err(io::Error::other(format!(
            "a probe or breakpoint is set at {at:#x}; remove it first"
        ))),
    }
}

/// The pieces that are swapped in one stop: at most `most` bytes, or one piece.
fn batches<'p, 'f>(pieces: &'p [Piece<'f>], most: u64) -> impl Iterator<Item = &'p [Piece<'f>]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |piece: &&Piece<'_>| {
            bytes += piece.content.len();
            bytes <= most
        };
        let count = rest.iter().take(MAX_FILES / 2).take_while(fits).count();
        let (batch, others) = rest.split_at_checked(count.max(1))?;
        rest = others;
        Some(batch)
    })
}

/// Checks that the process may have as many mappings as all steps may need, and as undoing them may
/// need. At the limit, the kernel makes the first step of a change, and refuses the next one and the
/// undoing of the first.
fn check_room(mappings: &Mappings, pieces: &[Piece<'_>]) -> Result<(), SwapError> {
    /// Mappings that the process may make meanwhile.
    const SPARE: usize = 64;
    let Some(most) = mappings_permitted() else {
        return Ok(());
    };
    // A step cuts a mapping into three at most. What is mapped again is not joined with what is beside it,
    // because it is of another open file.
    let steps: usize = pieces.iter().map(|piece| piece.steps.len()).sum();
    let needed = mappings.vmas.len().saturating_add(2 * steps + SPARE);
    if needed > most {
        return Err(SwapError::TooManyMappings {
            mapped: mappings.vmas.len(),
            most,
        });
    }
    Ok(())
}

/// How many mappings the kernel permits a process; `None` if that cannot be read.
fn mappings_permitted() -> Option<usize> {
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    most.trim().parse().ok()
}

/// Swaps all pieces in as many stops as needed, and verifies every byte after each. A piece whose
/// content differs from its file is swapped back.
fn make(
    target: &Target,
    mappings: &Mappings,
    pieces: &[Piece<'_>],
    outcome: &mut SwapOutcome,
) -> Result<(), SwapError> {
    check_room(mappings, pieces)?;
    for batch in batches(pieces, AT_ONCE) {
        let mut change = change_of(batch);
        change.limit = target.max_pause();
        outcome.pauses.push(swap(target, &change)?);
        for piece in batch {
            match compare(target, piece.content, piece.program, piece.offset) {
                Ok(probed) => {
                    outcome.finish(piece.text);
                    outcome.probed.extend(probed);
                }
                // The process has ended: nothing is left to verify or to damage.
                Err(error)
                    if error.raw_os_error() == Some(libc::ESRCH)
                        || error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    return Err(Refusal::from(error).into());
                }
                Err(error) => {
                    let mut back = change_of(std::slice::from_ref(piece));
                    back.compared.clear();
                    back.joins.clear();
                    back.steps.reverse();
                    for step in &mut back.steps {
                        std::mem::swap(&mut step.before, &mut step.after);
                    }
                    outcome.pauses.push(swap(target, &back)?);
                    let reason = format!("did not verify ({error}); put back");
                    outcome.leave(piece.text, reason);
                }
            }
        }
    }
    Ok(())
}

fn change_of<'f>(pieces: &[Piece<'f>]) -> Change<'f> {
    let mut change = Change::default();
    for piece in pieces {
        let first = change.files.len();
        change.files.extend(piece.files);
        let compared = piece.compared.map(|(file, time)| (first + file, time));
        change.compared.extend(compared);
        change.replaces_equal_pages |= !piece.small;
        change.steps.extend(piece.steps.iter().map(|step| Step {
            addresses: step.addresses,
            before: step.before.renumbered(first),
            after: step.after.renumbered(first),
        }));
        change.joins.extend(piece.join.map(|join| Join {
            addresses: join.addresses,
            content: join.content.renumbered(first),
        }));
    }
    change
}
