//! Finds the bytes that two files share on disk, which need not be read to be known as equal.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::ioctl::{self, Getter, Updater, opcode};

use super::filesystem::filesystem_of;

/// Blocks that two files share. Blocks that a write has changed are not among them: the filesystem
/// then gave the file other blocks (copy on write).
#[derive(Debug)]
pub struct SharedExtents {
    old: Vec<Extent>,
    new: Vec<Extent>,
}

impl SharedExtents {
    /// Writes back the dirty pages of both files and asks for the addresses of their blocks. The
    /// answer holds for the content at that time. It is empty if the filesystem is not known to
    /// answer reliably, or if the files are on different ones.
    pub fn of(old: &File, new: &File) -> io::Result<SharedExtents> {
        let same = old.metadata()?.dev() == new.metadata()?.dev();
        if !same || !has_one_block_space(old)? || !has_one_block_space(new)? {
            return Ok(SharedExtents {
                old: Vec::new(),
                new: Vec::new(),
            });
        }
        Ok(SharedExtents {
            old: extents(old)?,
            new: extents(new)?,
        })
    }

    /// Whether the byte at the offset `old` of the old file and that at `new` of the new file are
    /// in the same block, and for how many bytes from there on the answer holds: at least 1.
    pub fn shared(&self, old: u64, new: u64) -> (bool, u64) {
        let (old, new) = (run_at(&self.old, old), run_at(&self.new, new));
        let shared = old.physical.is_some() && old.physical == new.physical;
        (shared, old.len.min(new.len))
    }
}

/// A range of a file, with its address on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    logical: u64,
    physical: u64,
    len: u64,
}

/// Bytes of a file that are contiguous on disk.
struct Run {
    /// The address of the first byte; `None` if it is unknown, as in a hole.
    physical: Option<u64>,
    /// The number of bytes.
    len: u64,
}

/// The run that begins at `offset`.
fn run_at(extents: &[Extent], offset: u64) -> Run {
    let next = extents.partition_point(|extent| extent.logical <= offset);
    let before = next.checked_sub(1).and_then(|index| extents.get(index));
    let inside = before.and_then(|extent| {
        let into = offset - extent.logical;
        let len = extent.len.checked_sub(into).filter(|left| *left > 0)?;
        let physical = extent.physical.checked_add(into);
        Some(Run { physical, len })
    });
    let nothing = || Run {
        physical: None,
        len: extents
            .get(next)
            .map_or(u64::MAX, |extent| extent.logical - offset),
    };
    inside.unwrap_or_else(nothing)
}

/// FS_XFLAG_REALTIME (linux/fs.h): data on xfs' realtime device, whose blocks are numbered apart.
const REALTIME: u32 = 1;

/// Whether equal block numbers mean equal blocks, for all such files on the filesystem.
fn has_one_block_space(file: &File) -> io::Result<bool> {
    if !filesystem_of(file)?.shares_blocks() {
        return Ok(false);
    }
    // SAFETY: FS_IOC_FSGETXATTR fills one `struct fsxattr`, as the type of the opcode says.
    let attributes = unsafe {
        let get = Getter::<{ opcode::read::<FsXattr>(b'X', 31) }, FsXattr>::new();
        ioctl::ioctl(file, get)
    };
    match attributes {
        Ok(attributes) => Ok(attributes.flags & REALTIME == 0),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// `struct fsxattr` (linux/fs.h).
#[repr(C)]
struct FsXattr {
    flags: u32,
    rest: [u32; 6],
}

/// Number of extents asked for at a time.
const BATCH: usize = 256;
/// Number of extents remembered of a file, so that a fragmented file does not fill memory. The rest
/// of the file counts as not shared.
const MOST: usize = 1 << 19;

/// FIEMAP_FLAG_SYNC, and the flags of an extent (linux/fiemap.h).
const SYNC: u32 = 1;
const LAST: u32 = 1;
const MERGED: u32 = 0x1000;
const SHARED: u32 = 0x2000;

/// `struct fiemap` (linux/fiemap.h) without its extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent` (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Entry {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

#[repr(C)]
struct Request {
    header: Header,
    entries: [Entry; BATCH],
}

/// The extents of a file that are stored plainly on disk: written, neither compressed nor inline,
/// at a known address. Ascending.
fn extents(file: &File) -> io::Result<Vec<Extent>> {
    let mut found: Vec<Extent> = Vec::new();
    let mut start = 0;
    let mut request = Box::new(Request {
        header: Header::default(),
        entries: [Entry::default(); BATCH],
    });
    while found.len() < MOST {
        request.header = Header {
            start,
            length: u64::MAX - start,
            flags: SYNC,
            count: BATCH as u32,
            ..Header::default()
        };
        // SAFETY: FS_IOC_FIEMAP reads the header and fills at most `count` entries after it, for
        // which `Request` has room; the opcode names the size of the header alone.
        let result = unsafe {
            let map = Updater::<{ opcode::read_write::<Header>(b'f', 11) }, _>::new(&mut *request);
            ioctl::ioctl(file, map)
        };
        match result {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::BADR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let mapped = request.header.mapped as usize;
        let entries = request.entries.get(..mapped).unwrap_or_default();
        let plain = |entry: &&Entry| entry.flags & !(LAST | MERGED | SHARED) == 0;
        found.extend(entries.iter().filter(plain).map(|entry| Extent {
            logical: entry.logical,
            physical: entry.physical,
            len: entry.length,
        }));
        let next = entries.last().filter(|last| last.flags & LAST == 0);
        match next.and_then(|last| last.logical.checked_add(last.length)) {
            Some(end) if end > start => start = end,
            _ => break,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u64, physical: u64, len: u64) -> Extent {
        Extent {
            logical,
            physical,
            len,
        }
    }

    #[test]
    fn blocks_are_shared_where_both_files_have_the_same() {
        let shared = SharedExtents {
            old: vec![extent(0, 1000, 100), extent(100, 5000, 50)],
            new: vec![
                extent(0, 9000, 10),
                extent(20, 1020, 80),
                extent(300, 5000, 99),
            ],
        };
        assert_eq!(shared.shared(0, 0), (false, 10), "other blocks");
        assert_eq!(shared.shared(20, 20), (true, 80));
        assert_eq!(shared.shared(30, 30), (true, 70));
        assert_eq!(
            shared.shared(30, 31),
            (false, 69),
            "the same blocks elsewhere"
        );
        assert_eq!(shared.shared(10, 10), (false, 10), "a hole");
        assert_eq!(shared.shared(100, 300), (true, 50));
        assert_eq!(shared.shared(150, 350), (false, 49), "beyond the old end");
        assert_eq!(shared.shared(150, 400), (false, u64::MAX), "beyond both");
    }

    #[test]
    fn nothing_is_known_of_files_apart() {
        let (a, b) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        a.set_len(10_000).unwrap();
        let shared = SharedExtents::of(&a, &b).unwrap();
        assert_eq!(shared.shared(0, 0), (false, u64::MAX));
        let proc = File::open("/proc/self/status").unwrap();
        assert!(SharedExtents::of(&a, &proc).is_ok());
    }
}
