//! Access to the bytes of an image.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hugetext_leaf::Span;

use crate::error::ImageError;

/// Positioned reads, so that headers can be read without the rest of the file.
pub trait ReadAt {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset`; `UnexpectedEof` if the source ends before it is full.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Whether the source has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.get(start..end))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.as_slice())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buffer)
    }
}

/// Reads `len` bytes at `offset`. A range beyond the end of the file is refused before allocation.
pub(crate) fn read_range(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
    len: u64,
    file_len: u64,
    what: &'static str,
) -> Result<Vec<u8>, ImageError> {
    let inside = offset.checked_add(len).is_some_and(|end| end <= file_len);
    let len = usize::try_from(len).ok().filter(|_| inside);
    let mut buffer = vec![0; len.ok_or(ImageError::Truncated(what))?];
    source
        .read_exact_at(offset, &mut buffer)
        .map_err(truncated(what))?;
    Ok(buffer)
}

/// From the first to the last byte that is not zero. A program may have as many zeros as text, and they are read at each
/// start of it, so most of them are not looked at one by one.
pub(crate) fn not_zero(bytes: &[u8]) -> Option<Span> {
    if bytes.iter().fold(0, |all, byte| all | byte) == 0 {
        return None;
    }
    let first = bytes.iter().position(|byte| *byte != 0)?;
    let last = bytes.iter().rposition(|byte| *byte != 0)?;
    Some(Span::new(first as u64, last as u64 + 1))
}

/// An error from reading `what`. The end of the source means that the file is too short.
pub(crate) fn truncated(what: &'static str) -> impl Fn(io::Error) -> ImageError {
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ImageError::Truncated(what),
        _ => ImageError::Read(error),
    }
}
