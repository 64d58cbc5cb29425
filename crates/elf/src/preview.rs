//! The new file as it would be, without writing it.

use std::io;

use hugetext_leaf::Span;

use crate::operation::Operation;
use crate::source::ReadAt;
use crate::verify::Stretch;

/// The result of operations on a file, which reads through to the old file.
pub(crate) struct Preview<'a, S: ?Sized> {
    old: &'a S,
    len: u64,
    /// Ranges of the old file and where they begin in the new one, in ascending order of both.
    copies: Vec<(Span, u64)>,
    /// What is written over them: later entries over earlier ones.
    writes: Vec<(u64, &'a [u8])>,
}

impl<'a, S: ReadAt + ?Sized> Preview<'a, S> {
    /// `operations` gives a file of `len` bytes.
    pub(crate) fn new(old: &'a S, operations: &'a [Operation], len: u64) -> Preview<'a, S> {
        let (mut copies, mut writes) = (Vec::new(), Vec::new());
        for operation in operations {
            match operation {
                Operation::SetLen { .. } => {}
                Operation::Copy { from, to } => copies.push((*from, *to)),
                Operation::Write { at, bytes } => writes.push((*at, bytes.as_slice())),
            }
        }
        copies.sort_unstable_by_key(|(_, to)| *to);
        Preview {
            old,
            len,
            copies,
            writes,
        }
    }

    /// What the operations tell of the bytes from `old` of the old file and from `new` of this one on.
    pub(crate) fn known(&self, old: u64, new: u64) -> Stretch {
        let written = self.writes.iter().map(|(at, bytes)| span(*at, bytes.len()));
        let over = written.clone().find(|written| written.contains(new));
        if let Some(over) = over {
            return Stretch::Unknown(over.end - new);
        }
        let next = written
            .map(|written| written.start)
            .filter(|start| *start > new);
        let free = next.min().map_or(u64::MAX, |next| next - new);
        let copied = self.copies.iter().find_map(|(from, to)| {
            let end = to.saturating_add(from.len());
            (*to <= new && new < end).then(|| (from.start + (new - to), end - new))
        });
        match copied {
            Some((from, left)) if from == old => Stretch::Shared(left.min(free)),
            Some((_, left)) => Stretch::Unknown(left.min(free)),
            None => Stretch::Unknown(1),
        }
    }
}

impl<S: ReadAt + ?Sized> ReadAt for Preview<'_, S> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let wanted = span(offset, buffer.len());
        if wanted.len() != buffer.len() as u64 || wanted.end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(0);
        let place = |range: Span| {
            let [start, end] = [range.start, range.end].map(|at| (at - offset) as usize);
            start..end
        };
        for (from, to) in &self.copies {
            let range = wanted.intersect(&Span::new(*to, to.saturating_add(from.len())));
            if let Some(part) = buffer.get_mut(place(range)).filter(|_| !range.is_empty()) {
                self.old
                    .read_exact_at(from.start + (range.start - to), part)?;
            }
        }
        for (at, bytes) in &self.writes {
            let range = wanted.intersect(&span(*at, bytes.len()));
            if range.is_empty() {
                continue;
            }
            let [start, end] = [range.start, range.end].map(|byte| (byte - at) as usize);
            let written = buffer.get_mut(place(range)).zip(bytes.get(start..end));
            if let Some((part, bytes)) = written {
                part.copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

fn span(at: u64, len: usize) -> Span {
    Span::new(at, at.saturating_add(len as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_the_file_that_would_be_written() {
        let old: Vec<u8> = (1..=10).collect();
        let operations = [
            Operation::SetLen { len: 12 },
            Operation::Copy {
                from: Span::new(0, 4),
                to: 0,
            },
            Operation::Copy {
                from: Span::new(4, 10),
                to: 6,
            },
            Operation::Write {
                at: 1,
                bytes: vec![20, 21],
            },
        ];
        let preview = Preview::new(&old, &operations, 12);
        let mut whole = [9; 12];
        preview.read_exact_at(0, &mut whole).unwrap();
        assert_eq!(whole, [1, 20, 21, 4, 0, 0, 5, 6, 7, 8, 9, 10]);
        let mut part = [9; 3];
        preview.read_exact_at(2, &mut part).unwrap();
        assert_eq!(part, [21, 4, 0]);
        assert!(preview.read_exact_at(10, &mut part).is_err());
        assert_eq!(preview.known(0, 0), Stretch::Shared(1));
        assert_eq!(preview.known(1, 1), Stretch::Unknown(2));
        assert_eq!(preview.known(4, 6), Stretch::Shared(6));
        assert_eq!(preview.known(5, 6), Stretch::Unknown(6));
    }
}
