//! Copies of text in huge pages.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use hugetext_host::{Advice, Region, memory_file, next_data};
use hugetext_leaf::{CopyName, FileId, Leaf, Perms, Run, Span};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate};

use crate::arch::{Architecture, Native};
use crate::skeleton::{Bytes, Part, Shown, skeleton};
use crate::target::{Mappings, Target};

/// Why no copy in huge pages could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// The text could not be read.
    #[error("cannot read the text: {0}")]
    Read(io::Error),
    /// No executable memory file can be created (vm.memfd_noexec, a security module, no memory).
    #[error("cannot make a memory file for the copy: {0}")]
    Create(io::Error),
    /// The kernel used small pages.
    #[error(
        "the copy is not in huge pages ({0} of {1} windows; is memory fragmented, or shmem_enabled 'deny'?)"
    )]
    Small(u64, u64),
}

/// The name of the copy of a run of text.
pub(crate) fn copy_name(mappings: &Mappings, run: &Run, leaf: Leaf) -> CopyName {
    let path = mappings.at(run.text.start).and_then(|(_, path)| path);
    let basename = path.and_then(Path::file_name).unwrap_or_default();
    CopyName::of(run, leaf, &basename.to_string_lossy())
}

/// What a copy of text shall hold: the text in whole windows of huge pages, and around it as much of
/// the program file as tools need to find symbols.
pub(crate) struct Blueprint<'p> {
    /// What the copy is called.
    pub(crate) name: CopyName,
    /// The size of its huge pages.
    pub(crate) leaf: Leaf,
    /// The program file.
    pub(crate) program: &'p File,
    /// The process, and where its text is.
    pub(crate) target: &'p Target,
    /// Address of the first byte of the file that the copy shows.
    pub(crate) content: u64,
}

impl Blueprint<'_> {
    /// Offsets of the windows in the copy.
    pub(crate) fn windows(&self) -> Span {
        self.name.windows(self.leaf)
    }

    /// Makes an empty file the copy.
    pub(crate) fn write(&self, file: &File) -> Result<(), CopyError> {
        let mapped = self.name.mapped(self.leaf);
        let of_file = |at, len| self.of_file(at, len);
        let text = self.name.text();
        let file_len = self.program.metadata().map_err(CopyError::Read)?.len();
        let shown = Shown { mapped, text };
        let parts = skeleton(of_file, file_len, self.name.shift(), shown).unwrap_or_default();
        let end = parts.iter().map(Part::end).fold(mapped.end, u64::max);
        ftruncate(file, end).map_err(|error| CopyError::Create(error.into()))?;
        fill(file, &self.name, mapped, |at, bytes| self.read(at, bytes))?;
        // The content is what the process executes and reads: nothing is written over it.
        let content = self.name.content();
        for part in &parts {
            let before = Span::new(part.at, part.end().min(content.start));
            let behind = Span::new(part.at.max(content.end), part.end());
            for place in [before, behind].iter().filter(|place| !place.is_empty()) {
                self.write_part(file, part, *place)?;
            }
        }
        Ok(())
    }

    fn write_part(&self, file: &File, part: &Part, place: Span) -> Result<(), CopyError> {
        const AT_ONCE: usize = 1 << 20;
        for start in (place.start..place.end).step_by(AT_ONCE) {
            let len = (place.end - start).min(AT_ONCE as u64);
            let from = start - part.at;
            let bytes = match &part.bytes {
                Bytes::Changed(bytes) => {
                    let range = from as usize..(from + len) as usize;
                    bytes.get(range).map(<[u8]>::to_vec)
                }
                Bytes::OfFile(span) => self.of_file(span.start + from, len),
            };
            // A part of the file that cannot be read stays a hole.
            let Some(bytes) = bytes else { return Ok(()) };
            file.write_all_at(&bytes, start)
                .map_err(CopyError::Create)?;
        }
        Ok(())
    }

    /// Whether a file holds the content that the process executes and reads.
    pub(crate) fn is_in(&self, file: &File) -> bool {
        const AT_ONCE: u64 = 1 << 20;
        let (mut there, mut here) = (vec![0; AT_ONCE as usize], vec![0; AT_ONCE as usize]);
        (0..self.name.len).step_by(AT_ONCE as usize).all(|at| {
            let len = (self.name.len - at).min(AT_ONCE) as usize;
            let (Some(there), Some(here)) = (there.get_mut(..len), here.get_mut(..len)) else {
                return false;
            };
            file.read_exact_at(there, self.name.at + at).is_ok()
                && self.read(at, here).is_ok()
                && there == here
        })
    }

    /// Reads the content of the process, from an offset into it.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.target.read(self.content + at, bytes)
    }

    fn of_file(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len <= LONGEST)?;
        let mut bytes = vec![0; len];
        self.program.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// The longest table of an ELF file that is read at once, in bytes.
const LONGEST: usize = 16 << 20;

/// A copy of text, in huge pages. No process can write to it any more; private mappings of it still
/// accept breakpoints.
#[derive(Debug)]
pub(crate) struct HugeCopy {
    file: File,
    windows: Span,
}

impl HugeCopy {
    /// Makes a copy in a sealed memory file. Only processes that map it can open it.
    pub(crate) fn in_memory(blueprint: &Blueprint<'_>) -> Result<HugeCopy, CopyError> {
        let file = executable_memfd(&blueprint.name.to_string()).map_err(CopyError::Create)?;
        blueprint.write(&file)?;
        seal(&file)?;
        HugeCopy::of(file, blueprint.windows(), blueprint.leaf)
    }

    /// The copy in a file. Its windows are collapsed into huge pages where they are not.
    pub(crate) fn of(file: File, windows: Span, leaf: Leaf) -> Result<HugeCopy, CopyError> {
        let copy = HugeCopy { file, windows };
        let huge = copy.collapse(leaf).map_err(CopyError::Create)?;
        if huge < copy.size() {
            let windows = copy.size() / leaf.bytes();
            return Err(CopyError::Small(huge / leaf.bytes(), windows));
        }
        Ok(copy)
    }

    /// A memory file with the content of `part` of a copy (offsets in it), in pages of any size.
    pub(crate) fn stand_in(
        name: &CopyName,
        part: Span,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<File, CopyError> {
        let file = executable_memfd(&name.to_string()).map_err(CopyError::Create)?;
        ftruncate(&file, part.end).map_err(|error| CopyError::Create(error.into()))?;
        fill(&file, name, part, read)?;
        seal(&file)?;
        Ok(file)
    }

    /// Collapses the windows into huge pages. Returns how many bytes of them are in huge pages
    /// afterwards.
    fn collapse(&self, leaf: Leaf) -> io::Result<u64> {
        let perms = Perms {
            read: true,
            write: false,
            exec: false,
        };
        let start = self.windows.start;
        let region = Region::of_file(&self.file, start, self.size() as usize, leaf, perms)?;
        // Pages just written may still be on their way to the LRU list, where they cannot be
        // collapsed: EAGAIN (madvise(2), MADV_COLLAPSE) asks for another try.
        let mut huge = 0;
        for _ in 0..ATTEMPTS {
            let _ = region.advise(Advice::Collapse);
            region.touch(leaf.bytes() as usize);
            huge = region.pmd_mapped()?;
            if huge >= self.size() {
                break;
            }
        }
        Ok(huge)
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Offset of the first window.
    pub(crate) fn first_window(&self) -> u64 {
        self.windows.start
    }

    /// Bytes of its windows. What tools need beside them is small.
    pub(crate) fn size(&self) -> u64 {
        self.windows.len()
    }

    /// Its name in /proc/PID/maps.
    pub(crate) fn id(&self) -> io::Result<FileId> {
        let metadata = self.file.metadata()?;
        Ok(FileId {
            dev: metadata.dev(),
            ino: metadata.ino(),
        })
    }
}

/// How many times collapsing pages is tried.
const ATTEMPTS: u32 = 8;

/// Lets nobody write to a memory file or change its size any more.
fn seal(file: &File) -> Result<(), CopyError> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(file, seals).map_err(|error| CopyError::Create(error.into()))
}

/// Writes `part` of a copy. `read` reads the content, from an offset into it. The bytes around it trap
/// when executed.
fn fill(
    file: &File,
    name: &CopyName,
    part: Span,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(), CopyError> {
    /// Bytes written at a time: a huge page is filled by one write.
    const AT_ONCE: u64 = 2 << 20;
    let content = name.content();
    let mut buffer = vec![0; AT_ONCE as usize];
    for start in (part.start..part.end).step_by(AT_ONCE as usize) {
        let piece = Span::new(start, start + AT_ONCE).intersect(&part);
        let Some(bytes) = buffer.get_mut(..piece.len() as usize) else {
            break;
        };
        fill_with_traps(bytes);
        let inside = piece.intersect(&content);
        let begin = inside.start.saturating_sub(start) as usize;
        if let Some(bytes) = bytes.get_mut(begin..begin + inside.len() as usize)
            && !inside.is_empty()
        {
            read(inside.start - content.start, bytes).map_err(CopyError::Read)?;
        }
        file.write_all_at(bytes, start).map_err(CopyError::Create)?;
    }
    Ok(())
}

/// Whether a copy has its content. Without it, what is left are the symbols ([`write_symbols`]).
pub(crate) fn has_content(copy: &File, name: &CopyName) -> bool {
    let content = name.content();
    next_data(copy, content.start..content.end).is_ok_and(|data| data.is_some())
}

/// Writes to an empty file what tools need of a copy: all but the content and the traps around it.
pub(crate) fn write_symbols(copy: &File, name: &CopyName, to: &File) -> io::Result<()> {
    let (content, len) = (name.content(), copy.metadata()?.len());
    to.set_len(len)?;
    for part in [0..content.start, content.end..len] {
        write_data(copy, part, to)?;
    }
    Ok(())
}

/// Writes the pages of `part` that are neither holes nor traps.
fn write_data(copy: &File, part: Range<u64>, to: &File) -> io::Result<()> {
    let page = rustix::param::page_size();
    let (mut bytes, mut traps) = (vec![0; page], vec![0; page]);
    fill_with_traps(&mut traps);
    let mut at = part.start;
    while let Some(data) = next_data(copy, at..part.end)? {
        at = data.end;
        for start in data.clone().step_by(page) {
            let len = (data.end - start).min(page as u64) as usize;
            let Some(bytes) = bytes.get_mut(..len) else {
                break;
            };
            copy.read_exact_at(bytes, start)?;
            if *bytes != traps {
                to.write_all_at(bytes, start)?;
            }
        }
    }
    Ok(())
}

/// MFD_EXEC allows the copy to be executed.
fn executable_memfd(name: &str) -> io::Result<File> {
    memory_file(name, MemfdFlags::ALLOW_SEALING, MemfdFlags::EXEC)
}

fn fill_with_traps(window: &mut [u8]) {
    for (byte, trap) in window.iter_mut().zip(Native::TRAP.iter().cycle()) {
        *byte = *trap;
    }
}
