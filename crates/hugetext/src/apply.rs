//! Carrying out a rewrite: the operations that `elf` decided on, as writes to a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hugetext_elf::Operation;
use hugetext_leaf::{Leaf, Span};

/// Makes `new`, which is empty, from `old`. Copies are written in pieces that end where windows
/// end, so that each whole window goes into the page cache as one folio.
pub(crate) fn apply(
    operations: &[Operation],
    old: &File,
    new: &File,
    leaf: Leaf,
) -> io::Result<()> {
    for operation in operations {
        match operation {
            Operation::SetLen { len } => new.set_len(*len)?,
            Operation::Copy { from, to } => copy(old, *from, new, *to, leaf)?,
            Operation::Write { at, bytes } => new.write_all_at(bytes, *at)?,
        }
    }
    Ok(())
}

/// Copies a range of `old` to the offset `to` of `new`, window by window of `new`.
pub(crate) fn copy(old: &File, from: Span, new: &File, to: u64, leaf: Leaf) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(leaf.bytes()).map_err(io::Error::other)?];
    let mut done = 0;
    while done < from.len() {
        let window = leaf.bytes() - leaf.offset_in(to + done);
        let len = window.min(from.len() - done);
        let piece = usize::try_from(len).map_err(io::Error::other)?;
        let piece = buffer.get_mut(..piece).unwrap_or_default();
        old.read_exact_at(piece, from.start + done)?;
        new.write_all_at(piece, to + done)?;
        done += len;
    }
    Ok(())
}
