//! Copies ranges between files without holding them in memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use hugetext_leaf::Leaf;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::ioctl::{self, Setter, opcode};

/// Copies ranges of one file into another, through one buffer. Holes stay holes.
#[derive(Debug)]
pub struct Copier<'a> {
    old: &'a File,
    new: &'a File,
    /// Bytes of a filesystem block, while extents can be shared.
    shares: Option<u64>,
    /// Bytes read and written at a time. Writes are aligned to it in the new file, so that each can
    /// fill one folio of the page cache.
    chunk: u64,
    /// Ranges of the new file that are written afterwards, ascending.
    written: Vec<Range<u64>>,
    buffer: Vec<u8>,
    shared: u64,
}

/// `struct file_clone_range` (linux/fs.h).
#[repr(C)]
struct CloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

impl<'a> Copier<'a> {
    /// Copies from `old` to `new`, which already has its final length. Extents are shared where the
    /// filesystem can (xfs, btrfs). The rest is written in pieces of the PMD leaf of most machines.
    pub fn new(old: &'a File, new: &'a File) -> io::Result<Copier<'a>> {
        let block = old.metadata()?.blksize();
        Ok(Copier {
            shares: block.is_power_of_two().then_some(block),
            ..Copier::in_folios(old, new, Leaf::M2)
        })
    }

    /// The same, but everything is written, so that all of it ends up in the page cache, in folios
    /// of `leaf` if the filesystem makes them.
    pub fn in_folios(old: &'a File, new: &'a File, leaf: Leaf) -> Copier<'a> {
        Copier {
            old,
            new,
            shares: None,
            chunk: leaf.bytes(),
            written: Vec::new(),
            buffer: Vec::new(),
            shared: 0,
        }
    }

    /// The same, written in pieces of `largest`, which no folio of them exceeds.
    pub fn in_pieces_of(self, largest: Leaf) -> Copier<'a> {
        Copier {
            chunk: largest.bytes(),
            ..self
        }
    }

    /// Excludes the blocks that these ranges of the new file touch from sharing, because they are
    /// written afterwards: xfs would reserve 128 KiB for each shared block that a write separates.
    pub fn apart_from(self, written: impl IntoIterator<Item = Range<u64>>) -> Copier<'a> {
        let block = self.shares.unwrap_or(1);
        let blocks = |range: Range<u64>| {
            range.start - range.start % block..range.end.next_multiple_of(block)
        };
        let mut written: Vec<Range<u64>> = written.into_iter().map(blocks).collect();
        written.sort_by_key(|range| range.start);
        Copier { written, ..self }
    }

    /// Bytes shared with the old file so far, instead of copied.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Copies the bytes at `from` to `to`. Both ranges lie inside their files; the new file has no
    /// data there yet. `UnexpectedEof` if the old file has become shorter.
    pub fn copy(&mut self, from: Range<u64>, to: u64) -> io::Result<()> {
        let end = to + (from.end - from.start);
        let old = |new: u64| from.start + (new - to);
        let mut at = to;
        for range in self.written.clone() {
            let apart = range.start.clamp(at, end)..range.end.clamp(at, end);
            if !apart.is_empty() {
                self.share_or_copy(old(at)..old(apart.start), at)?;
                self.copy_data(old(apart.start)..old(apart.end), apart.start)?;
                at = apart.end;
            }
        }
        self.share_or_copy(old(at)..from.end, at)
    }

    fn share_or_copy(&mut self, from: Range<u64>, to: u64) -> io::Result<()> {
        let clones = self.clone_inside(&from, to)?;
        self.copy_data(from.start..clones.start, to)?;
        self.copy_data(clones.end..from.end, to + (clones.end - from.start))
    }

    /// Shares the whole blocks inside `from`. Returns the shared range, empty at its end if nothing
    /// was.
    fn clone_inside(&mut self, from: &Range<u64>, to: u64) -> io::Result<Range<u64>> {
        let nothing = from.end..from.end;
        let Some(block) = self.shares else {
            return Ok(nothing);
        };
        let start = from.start.next_multiple_of(block);
        let end = from.end - from.end % block;
        if from.start % block != to % block || start >= end {
            return Ok(nothing);
        }
        let range = CloneRange {
            src_fd: self.old.as_raw_fd().into(),
            src_offset: start,
            src_length: end - start,
            dest_offset: to + (start - from.start),
        };
        // SAFETY: FICLONERANGE reads one `struct file_clone_range`, as the type of the opcode says;
        // it writes to no memory of this process.
        let result = unsafe {
            let clone = Setter::<{ opcode::write::<CloneRange>(0x94, 13) }, _>::new(range);
            ioctl::ioctl(self.new, clone)
        };
        match result {
            Ok(()) => {
                self.shared += end - start;
                Ok(start..end)
            }
            // The filesystem cannot share at all, or not across these two files:
            // ioctl_ficlonerange(2).
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOTTY | Errno::PERM) => {
                self.shares = None;
                Ok(nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies the data between holes.
    fn copy_data(&mut self, from: Range<u64>, to: u64) -> io::Result<()> {
        let mut at = from.start;
        while let Some(data) = next_data(self.old, at..from.end)? {
            at = data.end;
            self.copy_chunks(data.clone(), to + (data.start - from.start))?;
        }
        Ok(())
    }

    fn copy_chunks(&mut self, from: Range<u64>, to: u64) -> io::Result<()> {
        let most = self.chunk.min(from.end - from.start) as usize;
        self.buffer.resize(self.buffer.len().max(most), 0);
        let mut done = 0;
        while done < from.end - from.start {
            let left = from.end - from.start - done;
            let to_boundary = self.chunk - (to + done) % self.chunk;
            let len = left.min(to_boundary) as usize;
            let chunk = self.buffer.get_mut(..len).unwrap_or_default();
            self.old.read_exact_at(chunk, from.start + done)?;
            self.new.write_all_at(chunk, to + done)?;
            done += len as u64;
        }
        Ok(())
    }
}

/// The first bytes of `within` that are no hole, up to the next hole or its end.
pub fn next_data(file: &File, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
    if within.is_empty() {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(within.start)) {
        Ok(data) if data < within.end => {
            let hole = seek(file, SeekFrom::Hole(data))?;
            Ok(Some(data..hole.min(within.end)))
        }
        // The rest of the range, or of the file, is a hole.
        Ok(_) | Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_data_and_keeps_holes() {
        let (old, new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i * 7 + i / 251) as u8).collect();
        old.write_all_at(&data, 100).unwrap();
        old.write_all_at(b"end", 64 << 20).unwrap();
        let len = old.metadata().unwrap().len();
        new.set_len(len + 4096).unwrap();

        let mut copier = Copier::new(&old, &new).unwrap();
        copier.copy(0..1_000_000, 0).unwrap();
        copier.copy(1_000_000..len, 1_000_000 + 4096).unwrap();

        let mut found = vec![0; data.len()];
        new.read_exact_at(&mut found[..999_900], 100).unwrap();
        new.read_exact_at(&mut found[999_900..], 1_000_000 + 4096)
            .unwrap();
        assert!(found == data, "bytes differ");
        let mut end = [0; 3];
        new.read_exact_at(&mut end, (64 << 20) + 4096).unwrap();
        assert_eq!(&end, b"end");
        let (before, after) = (old.metadata().unwrap(), new.metadata().unwrap());
        assert!(after.blocks() <= before.blocks() + 32, "holes were filled");
    }

    #[test]
    fn what_is_written_afterwards_is_copied_all_the_same() {
        let (old, new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let data: Vec<u8> = (0..100_000).map(|i: u32| (i * 7 + i / 251) as u8).collect();
        old.write_all_at(&data, 0).unwrap();
        new.set_len(108_192).unwrap();
        let written = [50_000..50_010, 0..64, 99_000..300_000, 60_000..60_000];
        let mut copier = Copier::new(&old, &new).unwrap().apart_from(written);
        copier.copy(0..40_000, 0).unwrap();
        copier.copy(40_000..100_000, 48_192).unwrap();
        let mut found = vec![0; 60_000];
        new.read_exact_at(&mut found, 48_192).unwrap();
        assert!(found == data[40_000..], "bytes differ");
        new.read_exact_at(&mut found[..40_000], 0).unwrap();
        assert!(found[..40_000] == data[..40_000], "bytes differ");
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let (old, new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        old.write_all_at(&[1; 100], 0).unwrap();
        new.set_len(200).unwrap();
        let mut copier = Copier::new(&old, &new).unwrap();
        let result = copier.copy_chunks(0..200, 0);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
