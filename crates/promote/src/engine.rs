//! Promotes a process and maps it back: copy, swap, verify.

use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

use hugetext_host::FileState;
use hugetext_leaf::{CopyName, FileId, Leaf, Original, Pad, Perms, ProcessVma, Run, Span};

use crate::copies::Copies;
use crate::copy::{Blueprint, CopyError, HugeCopy};
use crate::probes::breakpoints;
use crate::swap::{Change, Content, MAX_FILES, Pause, Step, read_padded, swap};
use crate::target::{Mappings, Target};
use crate::{Refusal, SwapError};

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
    text: Span,
    files: [&'f File; 2],
    /// Whether the first file is the program that the text was compared with.
    compared: Option<(usize, FileState)>,
    steps: Vec<Step>,
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
        match prepare(target, mappings, run, leaf, copies) {
            Ok((program, time, copy, is_new)) => {
                let bytes = if is_new {
                    &mut outcome.copied
                } else {
                    &mut outcome.shared
                };
                *bytes += copy.size();
                prepared.push((run, program, time, copy));
            }
            Err(CopyError::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Refusal::Executed.into());
            }
            Err(error) => outcome.leave(run.text, error),
        }
    }
    let mut pieces = Vec::new();
    for (run, program, time, copy) in &prepared {
        let place = (copy.id().map_err(SwapError::Trace)?, copy.first_window());
        pieces.extend(parts(run.windows).map(|part| Piece {
            text: run.text.intersect(&part),
            files: [program, copy.file()],
            compared: Some((0, *time)),
            steps: promotion_steps(mappings, run, part, place),
            small: true,
            program,
            offset: run.offset + (run.text.intersect(&part).start - run.text.start),
        }));
    }
    make(target, &pieces, &mut outcome)?;
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
            let (text, offset) = text_part(vma.addresses, vma.offset, &name);
            compare_unprobed(target, text, &program, offset)?;
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
            let (text, offset) = text_part(part, in_copy, name);
            let mut steps = reversion_steps(part, now, name);
            steps.extend(neighbours(mappings, part, name.file));
            Piece {
                text,
                files: [program, copy],
                compared: Some((0, *time)),
                steps,
                small: false,
                program,
                offset,
            }
        }));
    }
    make(target, &pieces, &mut outcome)?;
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
    compare_unprobed(target, run.text, &program, run.offset).map_err(CopyError::Read)?;
    let blueprint = Blueprint {
        name: copy_name(mappings, run, leaf),
        leaf,
        program: &program,
        target,
        text: run.text.start,
    };
    let (copy, is_new) = copies.get(&blueprint, time)?;
    Ok((program, time, copy, is_new))
}

fn state(file: &File) -> io::Result<FileState> {
    Ok(FileState::of(&file.metadata()?))
}

pub(crate) fn copy_name(mappings: &Mappings, run: &Run, leaf: Leaf) -> CopyName {
    let path = mappings.at(run.text.start).and_then(|(_, path)| path);
    let basename = path.and_then(Path::file_name).unwrap_or_default();
    CopyName::of(run, leaf, &basename.to_string_lossy())
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

/// The text in a mapping of a copy, and its file offset.
fn text_part(addresses: Span, offset: u64, name: &CopyName) -> (Span, u64) {
    let part = Span::new(offset, offset + addresses.len());
    name.originals(part)
        .into_iter()
        .find_map(|(span, original)| match original {
            Original::Text(at) => {
                let start = addresses.start + (span.start - offset);
                Some((Span::new(start, start + span.len()), at))
            }
            Original::Beside(_) => None,
        })
        .unwrap_or((Span::new(addresses.start, addresses.start), 0))
}

/// How much text is changed by one call, in bytes. In a process with one thread, it is also how
/// much is swapped in one stop, so that no pause grows with the program. For a MiB of base pages,
/// the kernel takes about 20 us to check that no page was changed, and 50 us to free their page
/// table. It is at least a window of any leaf that promotion knows.
const AT_ONCE: u64 = 32 << 20;

/// The same for one stop of several threads: one of them frees the page tables when the others have
/// been let go, and several processors look for changed pages.
const AT_ONCE_WITH_OTHERS: u64 = 128 << 20;

/// Cuts addresses where stops may end; windows stay whole.
fn parts(addresses: Span) -> impl Iterator<Item = Span> {
    let first = addresses.start - addresses.start % AT_ONCE;
    let starts = (first..addresses.end).step_by(AT_ONCE as usize);
    starts.map(move |start| Span::new(start, start + AT_ONCE).intersect(&addresses))
}

/// The changes for one part of a run. The program is file 0 of the steps and the copy is file 1.
fn promotion_steps(
    mappings: &Mappings,
    run: &Run,
    part: Span,
    (copy, first_window): (FileId, u64),
) -> Vec<Step> {
    let file = |file, id, offset, perms| Content::File {
        file,
        id,
        offset,
        perms,
        bti: run.bti && perms == run.perms,
    };
    let in_copy = |at: u64| file(1, copy, at - run.windows.start + first_window, run.perms);
    let pad = |span: Span, pad: Option<Pad>| {
        let hole = |vma: &ProcessVma| vma.offset + (span.start - vma.addresses.start);
        let before = match pad.filter(|_| !span.is_empty())? {
            Pad::Free => Content::Nothing,
            Pad::Hole => {
                let (vma, _) = mappings.at(span.start)?;
                file(0, run.file, hole(vma), Perms::default())
            }
        };
        Some(Step {
            addresses: span,
            before,
            after: in_copy(span.start),
        })
    };
    let addresses = run.text.intersect(&part);
    let offset = run.offset + (addresses.start - run.text.start);
    let text = Step {
        addresses,
        before: file(0, run.file, offset, run.perms),
        after: in_copy(addresses.start),
    };
    let head = pad(Span::new(part.start, addresses.start), run.head);
    let tail = pad(Span::new(addresses.end, part.end), run.tail);
    head.into_iter().chain(tail).chain([text]).collect()
}

/// Maps the file again beside `part` too, as it is mapped there: the kernel joins mappings of one open
/// file, and the one beside `part` is of another. Without this, three mappings would remain of one.
fn neighbours(mappings: &Mappings, part: Span, file: FileId) -> impl Iterator<Item = Step> + '_ {
    let beside = move |vma: &&ProcessVma| {
        let touches = vma.addresses.end == part.start || vma.addresses.start == part.end;
        touches
            && vma.file == Some(file)
            && vma.perms.exec
            && !vma.perms.write
            && vma.obstacle.is_none()
            && vma.changed.is_empty()
            && vma.addresses.len() <= AT_ONCE
    };
    mappings.vmas.iter().filter(beside).map(move |vma| {
        let same = Content::File {
            file: 0,
            id: file,
            offset: vma.offset,
            perms: vma.perms,
            bti: vma.bti,
        };
        Step {
            addresses: vma.addresses,
            before: same,
            after: same,
        }
    })
}

fn reversion_steps(addresses: Span, now: Content, name: &CopyName) -> Vec<Step> {
    let Content::File {
        id,
        offset,
        perms,
        bti,
        ..
    } = now
    else {
        return Vec::new();
    };
    let parts = name.originals(Span::new(offset, offset + addresses.len()));
    let step = |(span, original): (Span, Original)| {
        let start = addresses.start + (span.start - offset);
        let after = match original {
            Original::Text(offset) => Content::File {
                file: 0,
                id: name.file,
                offset,
                perms,
                bti,
            },
            Original::Beside(Pad::Free) => Content::Nothing,
            // A reservation keeps other mappings away, as the loader's hole did.
            Original::Beside(Pad::Hole) => Content::Reserved,
        };
        Step {
            addresses: Span::new(start, start + span.len()),
            before: Content::File {
                file: 1,
                id,
                offset: span.start,
                perms,
                bti,
            },
            after,
        }
    };
    parts.into_iter().map(step).collect()
}

/// The pieces that are swapped in one stop: at most `most` bytes, or one piece.
fn batches<'p, 'f>(pieces: &'p [Piece<'f>], most: u64) -> impl Iterator<Item = &'p [Piece<'f>]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |piece: &&Piece<'_>| {
            bytes += piece.text.len();
            bytes <= most
        };
        let count = rest.iter().take(MAX_FILES / 2).take_while(fits).count();
        let (batch, others) = rest.split_at_checked(count.max(1))?;
        rest = others;
        Some(batch)
    })
}

/// Swaps all pieces in as many stops as needed, and verifies every byte after each. A piece whose
/// content differs from its file is swapped back.
fn make(target: &Target, pieces: &[Piece<'_>], outcome: &mut SwapOutcome) -> Result<(), SwapError> {
    let most = match target.threads().map_err(Refusal::from)?.len() {
        0 | 1 => AT_ONCE,
        _ if target.max_pause().is_some() => AT_ONCE,
        _ => AT_ONCE_WITH_OTHERS,
    };
    for batch in batches(pieces, most) {
        let mut change = change_of(batch);
        change.limit = target.max_pause();
        outcome.pauses.push(swap(target, &change)?);
        for piece in batch {
            match compare(target, piece.text, piece.program, piece.offset) {
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
                    back.from_small_pages = false;
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
        change.from_small_pages |= piece.small;
        change.replaces_equal_pages |= !piece.small;
        let renumber = |content: Content| match content {
            Content::File {
                file,
                id,
                offset,
                perms,
                bti,
            } => Content::File {
                file: first + file,
                id,
                offset,
                perms,
                bti,
            },
            other => other,
        };
        change.steps.extend(piece.steps.iter().map(|step| Step {
            addresses: step.addresses,
            before: renumber(step.before),
            after: renumber(step.after),
        }));
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_addresses_and_cut_no_window() {
        let mib = |start: u64, end: u64| Span::new(start << 20, end << 20);
        let of = |addresses| parts(addresses).collect::<Vec<Span>>();
        assert_eq!(of(mib(34, 36)), [mib(34, 36)]);
        assert_eq!(
            of(mib(30, 98)),
            [mib(30, 32), mib(32, 64), mib(64, 96), mib(96, 98)]
        );
        assert!(AT_ONCE.is_multiple_of(Leaf::M2.bytes()) && AT_ONCE >= Leaf::M32.bytes());
    }
}
