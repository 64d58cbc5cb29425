//! PT_LOAD segments as plain values.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Every address and file offset of a [`Segment`] lies below this limit (2^56), so that sums of two
/// of them, and rounding up to any [`crate::Leaf`], stay inside `u64`. User address spaces end far
/// below it (2^47 on x86-64, 2^52 on arm64, 2^56 with 5-level paging).
pub const LIMIT: u64 = 1 << 56;

/// A half-open range of addresses or of file offsets, in bytes. `start <= end <= LIMIT` holds for
/// the spans of a [`Segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Span {
    /// The span from `start` to `end`; empty if `end` is not above `start`.
    pub const fn new(start: u64, end: u64) -> Span {
        Span {
            start,
            end: if end < start { start } else { end },
        }
    }

    /// Length in bytes.
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether no byte lies inside.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `value` lies inside.
    pub const fn contains(&self, value: u64) -> bool {
        self.start <= value && value < self.end
    }

    /// The bytes in both spans.
    pub fn intersect(&self, other: &Span) -> Span {
        Span::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// `spans` in ascending order, those that overlap or follow each other as one.
    pub fn joined(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
        let mut joined: Vec<Span> = spans.into_iter().collect();
        joined.sort_unstable();
        joined.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        joined
    }

    /// What is in `spans` and not in `taken`.
    pub fn without(spans: Vec<Span>, taken: &[Span]) -> Vec<Span> {
        taken.iter().fold(spans, |spans, taken| {
            let parts = spans.into_iter().flat_map(|span| {
                let before = span.end.min(taken.start).max(span.start);
                let behind = span.start.max(taken.end).min(span.end);
                [Span::new(span.start, before), Span::new(behind, span.end)]
            });
            parts.filter(|part| !part.is_empty()).collect()
        })
    }

    /// Whether any byte is in both spans.
    pub fn overlaps(&self, other: &Span) -> bool {
        !self.intersect(other).is_empty()
    }
}

/// Access rights of a segment or mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Perms {
    /// PF_R.
    pub read: bool,
    /// PF_W.
    pub write: bool,
    /// PF_X.
    pub exec: bool,
}

impl fmt::Display for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pick = |on, letter| if on { letter } else { '-' };
        let text: String = [
            pick(self.read, 'r'),
            pick(self.write, 'w'),
            pick(self.exec, 'x'),
        ]
        .iter()
        .collect();
        f.pad(&text)
    }
}

impl Serialize for Perms {
    /// As `r-x`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One PT_LOAD. Built by [`Segment::new`], which holds the invariants that later arithmetic
/// relies on: `filesz <= memsz` and every end at most [`LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct Segment {
    /// p_vaddr.
    pub vaddr: u64,
    /// p_offset.
    pub offset: u64,
    /// p_filesz: bytes that come from the file.
    pub filesz: u64,
    /// p_memsz: bytes in memory; those beyond p_filesz are zero.
    pub memsz: u64,
    /// p_align as the file gives it: 0 and 1 mean none; any other value should be a power of two.
    pub align: u64,
    /// p_flags.
    pub perms: Perms,
}

/// Why numbers do not form a PT_LOAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// p_vaddr + p_memsz or p_offset + p_filesz is beyond any user address space.
    #[error("segment at {vaddr:#x} ends beyond 2^56 bytes")]
    TooLarge {
        /// p_vaddr.
        vaddr: u64,
    },
    /// p_filesz > p_memsz, which the gABI forbids (ELF-64 object file format, program header).
    #[error(
        "segment at {vaddr:#x} has a file size ({filesz:#x}) above its memory size ({memsz:#x})"
    )]
    FileSizeAboveMemorySize {
        /// p_vaddr.
        vaddr: u64,
        /// p_filesz.
        filesz: u64,
        /// p_memsz.
        memsz: u64,
    },
    /// p_align is neither 0 nor a power of two (gABI, p_align).
    #[error("segment at {vaddr:#x} has an alignment of {align:#x}, which is not a power of two")]
    Alignment {
        /// p_vaddr.
        vaddr: u64,
        /// p_align.
        align: u64,
    },
}

impl Segment {
    /// Checks the invariants named at [`Segment`].
    pub fn new(
        vaddr: u64,
        offset: u64,
        filesz: u64,
        memsz: u64,
        align: u64,
        perms: Perms,
    ) -> Result<Segment, SegmentError> {
        let below = |start: u64, len: u64| start.checked_add(len).is_some_and(|end| end <= LIMIT);
        if !below(vaddr, memsz) || !below(offset, filesz) {
            return Err(SegmentError::TooLarge { vaddr });
        }
        if filesz > memsz {
            return Err(SegmentError::FileSizeAboveMemorySize {
                vaddr,
                filesz,
                memsz,
            });
        }
        if align != 0 && !align.is_power_of_two() {
            return Err(SegmentError::Alignment { vaddr, align });
        }
        Ok(Segment {
            vaddr,
            offset,
            filesz,
            memsz,
            align,
            perms,
        })
    }

    /// Addresses whose bytes come from the file.
    pub fn file_backed(&self) -> Span {
        Span::new(self.vaddr, self.vaddr + self.filesz)
    }

    /// All addresses of the segment.
    pub fn memory(&self) -> Span {
        Span::new(self.vaddr, self.vaddr + self.memsz)
    }

    /// File offsets of the segment.
    pub fn file(&self) -> Span {
        Span::new(self.offset, self.offset + self.filesz)
    }

    /// Whether the segment is text: a PT_LOAD with PF_X.
    pub fn is_text(&self) -> bool {
        self.perms.exec && self.filesz > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_windows_are_one_range() {
        let windows = [(0, 2), (2, 4), (6, 8)].map(|(start, end)| Span::new(start, end));
        let ranges = Span::joined(windows);
        assert_eq!(ranges, [Span::new(0, 4), Span::new(6, 8)]);
    }

    #[test]
    fn what_is_taken_may_cut_a_range_or_miss_it() {
        let spans = vec![Span::new(2, 8), Span::new(10, 12)];
        let taken = [(0, 1), (4, 5), (7, 11), (20, 30)].map(|(start, end)| Span::new(start, end));
        let left = [(2, 4), (5, 7), (11, 12)].map(|(start, end)| Span::new(start, end));
        assert_eq!(Span::without(spans.clone(), &taken), left);
        assert_eq!(Span::without(spans.clone(), &[]), spans);
        assert_eq!(Span::without(spans, &[Span::new(0, 20)]), []);
    }

    #[test]
    fn refuses_what_later_arithmetic_could_not_hold() {
        let rx = Perms {
            read: true,
            write: false,
            exec: true,
        };
        assert!(Segment::new(u64::MAX, 0, 1, 1, 0, rx).is_err());
        assert!(Segment::new(0, u64::MAX - 1, 1, 1, 0, rx).is_err());
        assert!(Segment::new(0, LIMIT, 1, 1, 0, rx).is_err());
        assert!(Segment::new(0, 0, 2, 1, 0, rx).is_err());
        assert!(Segment::new(0, 0, 1, 1, 3, rx).is_err());
        assert!(Segment::new(0, 0, 1, 1, 0, rx).is_ok());
    }
}
