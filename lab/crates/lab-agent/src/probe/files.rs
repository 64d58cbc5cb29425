//! Files for tests: written in small or in leaf-sized pieces, and dropped from the page cache.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Writes `bytes` bytes in pieces of `piece`, to disk.
pub(super) fn create(path: &Path, bytes: u64, piece: u64) -> io::Result<()> {
    copy(&mut io::repeat(0xcc).take(bytes), path, piece)
}

/// Copies `source` in pieces of `piece` into a new inode, keeping its mode, then renames it to
/// `target`.
pub(super) fn replace(source: &Path, target: &Path, piece: u64) -> io::Result<()> {
    let new = target.with_extension("new");
    copy(&mut File::open(source)?, &new, piece)?;
    fs::set_permissions(&new, fs::metadata(source)?.permissions())?;
    fs::rename(new, target)
}

fn copy(from: &mut impl Read, path: &Path, piece: u64) -> io::Result<()> {
    let mut to = File::create(path)?;
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        from.by_ref().take(piece).read_to_end(&mut buffer)?;
        if buffer.is_empty() {
            return to.sync_all();
        }
        to.write_all(&buffer)?;
    }
}

/// Drops the file's clean pages that no process maps.
pub(super) fn drop_cache(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // Dirty pages cannot be dropped. A read-only filesystem has none, and may refuse to sync.
    let _ = file.sync_all();
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}
