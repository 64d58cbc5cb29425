//! Copies of text in huge pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use hugetext_leaf::{CopyName, FileId, Leaf, Perms, Span};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::registers::TRAP;
use crate::pagemap;
use crate::region::{Advice, Region};

/// Why no copy in huge pages could be made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
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

/// A sealed memory file of whole windows that holds a copy of text, in huge pages. No process can
/// write to it any more; private mappings of it still accept breakpoints.
#[derive(Debug)]
pub struct HugeCopy {
    file: File,
    name: CopyName,
    len: u64,
}

impl HugeCopy {
    /// Makes a copy of `len` bytes, a multiple of `leaf`. `read` reads the text, from an offset
    /// into it. The bytes around the text trap when executed.
    pub fn new(
        name: CopyName,
        len: u64,
        leaf: Leaf,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<HugeCopy, CopyError> {
        let file = executable_memfd(&name.to_string()).map_err(CopyError::Create)?;
        ftruncate(&file, len).map_err(|error| CopyError::Create(error.into()))?;
        fill(&file, &name, Span::new(0, len), read)?;
        seal(&file)?;
        let copy = HugeCopy { file, name, len };
        let huge = copy.collapse(leaf).map_err(CopyError::Create)?;
        if huge < len {
            return Err(CopyError::Small(huge / leaf.bytes(), len / leaf.bytes()));
        }
        Ok(copy)
    }

    /// A memory file with the content of `part` of a copy (offsets in it), in pages of any size.
    pub(super) fn stand_in(
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

    /// Collapses the copy into huge pages. Returns how many bytes of it are in huge pages
    /// afterwards.
    fn collapse(&self, leaf: Leaf) -> io::Result<u64> {
        let perms = Perms {
            read: true,
            write: false,
            exec: false,
        };
        let region = Region::of_file(&self.file, 0, self.len as usize, leaf, perms)?;
        // Pages just written may still be on their way to the LRU list, where they cannot be
        // collapsed: EAGAIN (madvise(2), MADV_COLLAPSE) asks for another try.
        let mut huge = 0;
        for _ in 0..ATTEMPTS {
            let _ = region.advise(Advice::Collapse);
            region.touch(leaf.bytes() as usize);
            huge = mapped_huge(&region)?;
            if huge >= self.len {
                break;
            }
        }
        Ok(huge)
    }

    /// The memory file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its content.
    pub fn name(&self) -> &CopyName {
        &self.name
    }

    /// Its length, which is the memory that it takes, in bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Its name in /proc/PID/maps.
    pub fn id(&self) -> io::Result<FileId> {
        let metadata = self.file.metadata()?;
        Ok(FileId {
            dev: metadata.dev(),
            ino: metadata.ino(),
        })
    }
}

/// Lets nobody write to a memory file or change its size any more.
fn seal(file: &File) -> Result<(), CopyError> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(file, seals).map_err(|error| CopyError::Create(error.into()))
}

/// Writes `part` of a copy. `read` reads the text, from an offset into it. The bytes around the
/// text trap when executed.
fn fill(
    file: &File,
    name: &CopyName,
    part: Span,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(), CopyError> {
    /// Bytes written at a time: a huge page is filled by one write.
    const AT_ONCE: u64 = 2 << 20;
    let text = Span::new(name.pad, name.pad + name.len);
    let mut buffer = vec![0; AT_ONCE as usize];
    for start in (part.start..part.end).step_by(AT_ONCE as usize) {
        let piece = Span::new(start, start + AT_ONCE).intersect(&part);
        let Some(bytes) = buffer.get_mut(..piece.len() as usize) else {
            break;
        };
        fill_with_traps(bytes);
        let inside = piece.intersect(&text);
        let begin = inside.start.saturating_sub(start) as usize;
        if let Some(bytes) = bytes.get_mut(begin..begin + inside.len() as usize)
            && !inside.is_empty()
        {
            read(inside.start - text.start, bytes).map_err(CopyError::Read)?;
        }
        file.write_all_at(bytes, start).map_err(CopyError::Create)?;
    }
    Ok(())
}

/// How many times collapsing pages is tried.
const ATTEMPTS: u32 = 8;

/// Bytes of a region of this process that PMD leaves map.
fn mapped_huge(region: &Region) -> io::Result<u64> {
    let pagemap = File::open("/proc/self/pagemap")?;
    match pagemap::huge_spans(&pagemap, region.span()) {
        Ok(spans) => Ok(spans.iter().map(Span::len).sum()),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            let maps = crate::process::own_smaps()?;
            let own = maps.iter().filter(|(span, _)| region.span().overlaps(span));
            Ok(own.map(|(_, huge)| huge).sum())
        }
        Err(error) => Err(error),
    }
}

/// MFD_EXEC allows the copy to be executed (Linux 6.3; vm.memfd_noexec). Older kernels do not know
/// the flag and do not need it.
fn executable_memfd(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = match memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(rustix::io::Errno::INVAL) => memfd_create(name, flags),
        other => other,
    };
    Ok(memfd?.into())
}

fn fill_with_traps(window: &mut [u8]) {
    for (byte, trap) in window.iter_mut().zip(TRAP.iter().cycle()) {
        *byte = *trap;
    }
}
