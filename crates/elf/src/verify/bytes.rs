//! Compares ranges of two files without holding them in memory.

use hugetext_leaf::Span;

use super::difference::Difference;
use crate::encoding::{Encoding, Symbol};
use crate::error::ImageError;
use crate::headers::Table;
use crate::image::Image;
use crate::source::{ReadAt, not_zero};

/// Number of bytes compared at a time.
const CHUNK: usize = 1 << 18;

/// Prior knowledge of the bytes of two files, from an offset in each file on. The lengths are
/// bytes, and not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// This many bytes are the same.
    Shared(u64),
    /// Nothing is known of this many bytes.
    Unknown(u64),
}

/// What is known of the bytes from an offset in the old file and one in the new file on.
pub(super) type Known<'a> = dyn Fn(u64, u64) -> Stretch + 'a;

/// Two files, with buffers to compare them in.
pub(super) struct Comparer<'a, O: ?Sized, N: ?Sized> {
    pub(super) old: &'a O,
    pub(super) old_image: &'a Image,
    pub(super) new: &'a N,
    pub(super) new_image: &'a Image,
    known: &'a Known<'a>,
    old_buffer: Vec<u8>,
    new_buffer: Vec<u8>,
    /// The ranges of the header tables in the old and in the new file. Their bytes may differ;
    /// other code compares their meaning.
    tables: [(&'static str, Span, u64); 3],
}

impl<'a, O: ReadAt + ?Sized, N: ReadAt + ?Sized> Comparer<'a, O, N> {
    pub(super) fn new(
        old: &'a O,
        old_image: &'a Image,
        new: &'a N,
        new_image: &'a Image,
        known: &'a Known<'a>,
    ) -> Comparer<'a, O, N> {
        let span = |table: &Table| Span::new(table.offset, table.end());
        let old_table = old_image.program_table.offset;
        let headers = Span::new(old_table, taken_by_headers(old_image, new_image).end);
        let headers_at = new_image.program_table.offset;
        Comparer {
            old,
            old_image,
            new,
            new_image,
            known,
            old_buffer: vec![0; CHUNK],
            new_buffer: vec![0; CHUNK],
            tables: [
                ("the ELF header", old_image.file_header(), 0),
                ("the program header table", headers, headers_at),
                (
                    "the section header table",
                    span(&old_image.section_table),
                    new_image.section_table.offset,
                ),
            ],
        }
    }

    /// Checks that the range `old` of the old file has the bytes at `new` in the new one. Header
    /// tables are exempt, but must be at corresponding offsets.
    pub(super) fn same(
        &mut self,
        what: &'static str,
        old: Span,
        new: u64,
    ) -> Result<(), Difference> {
        let mut at = old.start;
        while at < old.end {
            let table = self.tables.iter().find(|(_, span, _)| span.contains(at));
            if let Some((name, span, new_start)) = table {
                let expected = new_start.checked_add(at - span.start);
                if expected != new.checked_add(at - old.start) {
                    return Err(Difference::TableMoved(name));
                }
                at = span.end.min(old.end);
                continue;
            }
            let next = self.tables.iter().map(|(_, span, _)| span.start);
            let end = next
                .filter(|start| *start > at)
                .min()
                .map_or(old.end, |start| start.min(old.end));
            let from = new.checked_add(at - old.start).ok_or(beyond())?;
            self.same_bytes(what, Span::new(at, end), from)?;
            at = end;
        }
        Ok(())
    }

    fn same_bytes(&mut self, what: &'static str, old: Span, new: u64) -> Result<(), Difference> {
        let mut done = 0;
        while done < old.len() {
            let (at, left) = (old.start + done, old.len() - done);
            let from = new.checked_add(done).ok_or(beyond())?;
            let unknown = match (self.known)(at, from) {
                Stretch::Shared(len) => {
                    done = done.saturating_add(len);
                    continue;
                }
                Stretch::Unknown(len) => len,
            };
            let len = left.min(unknown.clamp(1, CHUNK as u64));
            let (a, b) = self.read_both(at, from, len as usize)?;
            if a != b {
                let first = a.iter().zip(b).position(|(a, b)| a != b);
                let offset = at + first.unwrap_or(0) as u64;
                return Err(Difference::Bytes { what, offset });
            }
            done += len;
        }
        Ok(())
    }

    /// Checks that each byte from `new` on is zero or equal to its counterpart in the range `old`
    /// of the old file, which may extend beyond its end. The range is loaded at `address`.
    pub(super) fn same_or_zero(
        &mut self,
        old: Span,
        new: u64,
        address: u64,
    ) -> Result<(), Difference> {
        let inside = Span::new(old.start, old.end.min(self.old_image.file_len));
        for (at, len) in chunks(inside.len()) {
            let from = new.checked_add(at).ok_or(beyond())?;
            let (a, b) = self.read_both(inside.start + at, from, len)?;
            let other = a.iter().zip(b).position(|(a, b)| *b != 0 && a != b);
            if let Some(first) = other {
                return Err(Difference::NotZero(address + at + first as u64));
            }
        }
        let checked = inside.len();
        let rest = Span::new(new.saturating_add(checked), new.saturating_add(old.len()));
        self.zero(rest, address + checked)
    }

    /// Checks that the range `file` of the new file is zero. The range is loaded at `address`.
    pub(super) fn zero(&mut self, file: Span, address: u64) -> Result<(), Difference> {
        for (at, len) in chunks(file.len()) {
            let buffer = self.new_buffer.get_mut(..len).ok_or(beyond())?;
            self.new.read_exact_at(file.start + at, buffer)?;
            if let Some(found) = not_zero(buffer) {
                return Err(Difference::NotZero(address + at + found.start));
            }
        }
        Ok(())
    }

    /// Whether both files have the range, with the same bytes at the same offsets.
    pub(super) fn alike(&mut self, range: Span) -> Result<bool, Difference> {
        if range.end > self.old_image.file_len.min(self.new_image.file_len) {
            return Ok(false);
        }
        for (at, len) in chunks(range.len()) {
            let at = range.start + at;
            let (a, b) = self.read_both(at, at, len)?;
            if a != b {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that the range `file` of the old file is zero.
    pub(super) fn was_zero(&mut self, what: &'static str, file: Span) -> Result<(), Difference> {
        for (at, len) in chunks(file.len()) {
            let buffer = self.old_buffer.get_mut(..len).ok_or(beyond())?;
            self.old.read_exact_at(file.start + at, buffer)?;
            if let Some(first) = buffer.iter().position(|byte| *byte != 0) {
                let offset = file.start + at + first as u64;
                return Err(Difference::Bytes { what, offset });
            }
        }
        Ok(())
    }

    /// Checks that the symbols in the range `old` of the old file are those from `new` on in the new
    /// one. Their sections may differ as `same_section` permits: it takes the address of a symbol,
    /// and its section in either file.
    pub(super) fn same_symbols(
        &mut self,
        old: Span,
        new: u64,
        same_section: impl Fn(u64, u16, u16) -> bool,
    ) -> Result<(), Difference> {
        const WHAT: &str = "a symbol table";
        let encoding = self.old_image.encoding;
        let symbol = encoding.size_of::<Symbol>();
        let size = symbol as usize;
        let whole = old.len() / symbol * symbol;
        let step = CHUNK / size * size;
        for at in (0..whole).step_by(step) {
            let from = new.checked_add(at).ok_or(beyond())?;
            let len = usize::try_from(whole - at).map_or(step, |left| left.min(step));
            let (a, b) = self.read_both(old.start + at, from, len)?;
            if a == b {
                continue;
            }
            let mut pairs = (0u64..).zip(a.chunks_exact(size).zip(b.chunks_exact(size)));
            let differs = pairs
                .find(|(_, (a, b))| a != b && !same_but_section([a, b], encoding, &same_section));
            if let Some((index, _)) = differs {
                let offset = old.start + at + index * symbol;
                return Err(Difference::Bytes { what: WHAT, offset });
            }
        }
        let rest = new.checked_add(whole).ok_or(beyond())?;
        self.same(WHAT, Span::new(old.start + whole, old.end), rest)
    }

    /// Reads `len` bytes, at most a chunk, of either file.
    fn read_both(&mut self, old: u64, new: u64, len: usize) -> Result<(&[u8], &[u8]), Difference> {
        let a = self.old_buffer.get_mut(..len).ok_or(beyond())?;
        let b = self.new_buffer.get_mut(..len).ok_or(beyond())?;
        self.old.read_exact_at(old, a)?;
        self.new.read_exact_at(new, b)?;
        Ok((a, b))
    }
}

/// The bytes behind the program header table of the old file that became a part of it.
pub(super) fn taken_by_headers(old: &Image, new: &Image) -> Span {
    let table = &old.program_table;
    let end = table.offset.saturating_add(new.program_table.len());
    Span::new(table.end(), end.max(table.end()))
}

/// Whether an old and a new symbol differ in nothing but their section, in a permitted way.
fn same_but_section(
    bytes: [&[u8]; 2],
    encoding: Encoding,
    permits: impl Fn(u64, u16, u16) -> bool,
) -> bool {
    let [Some(old), Some(new)] = bytes.map(|bytes| encoding.decode::<Symbol>(bytes)) else {
        return false;
    };
    let as_before = Symbol {
        st_shndx: old.st_shndx,
        ..new
    };
    as_before == old && permits(old.st_value, old.st_shndx, new.st_shndx)
}

/// Cuts `len` bytes into chunks: the start and length of each.
fn chunks(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(CHUNK).map(move |at| {
        (
            at,
            usize::try_from(len - at).map_or(CHUNK, |left| left.min(CHUNK)),
        )
    })
}

fn beyond() -> Difference {
    Difference::New(ImageError::Truncated("a range"))
}
